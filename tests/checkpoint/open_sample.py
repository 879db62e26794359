"""Threads that wait for something, and stores with vectors, as a release leaves them.

`PYTHONPATH=… python tests/checkpoint/open_sample.py tests/data/formats/0.2 redis://…` makes the
sample of the version on the path, in SQLite files and on an empty server. It is done once for each
release that changes what is stored, and kept for good.
"""

from __future__ import annotations

import base64
import json
import operator
import sys
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.channels import DeltaChannel
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt

RAN: list[str] = []
"""Which tasks have ended in this process."""
ANSWERS: dict[str, dict[str, Any]] = {
    "workers": {"done": ["0", "1: yes", "2", "3: yes then yes"], "log": [0, 1, 2, 3]},
    "half": {"done": ["0", "1: yes", "2", "3: no then yes"], "log": [0, 1, 2, 3]},
    "exit": {"done": ["0", "1: yes", "2", "3: yes then yes"], "log": [0, 1, 2, 3]},
    "inner": {"done": ["in", "in", "in", "first", "yes"], "log": []},
    "flow": {"got": [0, 1, "A", "yes"], "before": None},
}
"""What each thread ends with when every open question is answered with "yes"."""
LEFT: dict[str, list[str]] = {
    "workers": ["work 1", "work 3"],
    "half": ["work 1", "work 3"],
    "exit": ["work 1", "work 3"],
    "inner": ["ask"],
    "flow": ["asks"],
}
"""The tasks that then run, and no others."""
QUERIES = ("bread and butter", "aaaa", "c")
INDEX: Any = {
    "dims": 3,
    "embed": lambda texts: [[text.count("a") + 0.1, text.count("b"), 1.0] for text in texts],
    "fields": ["text", "parts[*].text"],
}


def extended(value: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*value, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    log: Annotated[list[Any], DeltaChannel(extended, snapshot_frequency=3)]


def at(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def workers(saver: Any) -> Any:
    """Four tasks in one step: two end, one asks once, one asks twice."""

    def work(state: Any) -> State:
        number = state["number"]
        said = str(number)
        if number % 2:
            said += f": {interrupt({'of': number})}"
        if number == 3:
            said += f" then {interrupt('again')}"
        RAN.append(f"work {number}")
        return {"done": [said], "log": [number]}

    def sends(state: State) -> list[Send]:
        return [Send("work", {"number": number}) for number in range(4)]

    builder: Any = StateGraph(State).add_node("work", work)
    return builder.add_conditional_edges(START, sends, ["work"]).compile(checkpointer=saver)


def inner(saver: Any) -> Any:
    """A graph two levels down asks after its first node."""

    def first(state: State) -> State:
        RAN.append("first")
        return {"done": ["first"]}

    def ask(state: State) -> State:
        answer = interrupt("sure?")
        RAN.append("ask")
        return {"done": [answer]}

    lowest: Any = StateGraph(State).add_node(first).add_node(ask)
    lowest = lowest.add_edge(START, "first").add_edge("first", "ask").compile()
    middle: Any = StateGraph(State).add_node("lowest", lowest).add_edge(START, "lowest").compile()
    top: Any = StateGraph(State).add_node("middle", middle).add_edge(START, "middle")
    return top.compile(checkpointer=saver)


def flow(saver: Any) -> Any:
    """A function whose tasks have ended, the last of which asks."""

    @task
    def counted(number: int) -> int:
        RAN.append(f"counted {number}")
        return number

    @task
    def asks(question: str) -> str:
        answer: str = interrupt(question)
        RAN.append("asks")
        return answer

    @entrypoint(checkpointer=saver)
    def run(start: int, *, previous: Any = None) -> Any:
        counts = [one.result() for one in [counted(0), counted(1)]]
        return {
            "got": [*counts, asks("first").result(), asks("second").result()],
            "before": previous,
        }

    return run


GRAPHS = {"workers": workers, "half": workers, "exit": workers, "inner": inner, "flow": flow}


def fill(saver: Any) -> None:
    workers(saver).invoke({"done": []}, at("workers"))
    half = workers(saver)
    half.invoke({"done": []}, at("half"))
    (third,) = [one for one in half.get_state(at("half")).interrupts if one.value == {"of": 3}]
    half.invoke(Command(resume={third.id: "no"}), at("half"))
    workers(saver).invoke({"done": []}, at("exit"), durability="exit")
    inner(saver).invoke({"done": ["in"]}, at("inner"))
    flow(saver).invoke(0, at("flow"))
    flow(saver).invoke(Command(resume="A"), at("flow"))


def told(saver: Any) -> dict[str, Any]:
    """What waits in each thread."""
    return {
        thread_id: [
            [
                state.config["configurable"]["checkpoint_id"],
                repr(sorted(state.values.items())) if isinstance(state.values, dict) else "",
                sorted([one.id, one.name, len(one.interrupts)] for one in state.tasks),
                sorted([one.id, repr(one.value)] for one in state.interrupts),
            ]
            for state in make(saver).get_state_history(at(thread_id))
        ]
        for thread_id, make in GRAPHS.items()
    }


def answered(saver: Any, thread_id: str) -> Any:
    """What a thread ends with when all its questions are answered."""
    graph = GRAPHS[thread_id](saver)
    result = None
    while asked := graph.get_state(at(thread_id)).interrupts:
        result = graph.invoke(Command(resume={one.id: "yes" for one in asked}), at(thread_id))
    return result


def fill_store(store: Any) -> None:
    for number in range(12):
        parts = [{"text": "b" * (number % 5)}, {"text": "c"}]
        store.put(
            ("docs", str(number % 2)), str(number), {"text": "a" * (number % 7), "parts": parts}
        )
    store.put(("docs", "0"), "hidden", {"text": "aaaa"}, index=False)
    store.put(("docs", "0"), "0", {"text": "bread and butter"})
    store.delete(("docs", "1"), "1")
    store.put(("kept",), "long", {"n": 1}, ttl=60 * 24 * 365 * 100)


def found(store: Any) -> dict[str, Any]:
    """Every item, and what is found by meaning."""
    items = store.search((), limit=100, refresh_ttl=False)
    return {
        "items": sorted(
            [*item.namespace, item.key, item.value, item.created_at.isoformat(), item.version]
            for item in items
        ),
        "by meaning": [
            [[item.key, round(item.score, 3)] for item in store.search(("docs",), query=query)]
            for query in QUERIES
        ],
    }


# -- what a Redis server holds, as JSON


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(value: str) -> bytes:
    return base64.b64decode(value)


def dumped(client: Any) -> list[Any]:
    """All keys with their types and values."""
    rows: list[Any] = []
    for key in sorted(client.keys("*")):
        kind = client.type(key).decode()
        value: Any
        if kind == "hash":
            value = {_text(name): _text(held) for name, held in client.hgetall(key).items()}
        elif kind == "zset":
            value = {
                _text(name): score for name, score in client.zrange(key, 0, -1, withscores=True)
            }
        else:
            kind, value = "string", _text(client.get(key))
        rows.append([_text(key), kind, value])
    return rows


def loaded(client: Any, rows: list[Any]) -> None:
    """Put dumped keys into an empty server."""
    for text, kind, value in rows:
        key = _bytes(text)
        if kind == "hash":
            client.hset(key, mapping={_bytes(name): _bytes(held) for name, held in value.items()})
        elif kind == "zset":
            client.zadd(key, {_bytes(name): score for name, score in value.items()})
        else:
            client.set(key, _bytes(value))


def main(folder: Path, url: str) -> None:
    import redis

    from milepost.checkpoint.redis import RedisSaver
    from milepost.checkpoint.sqlite import SqliteSaver
    from milepost.store.redis import RedisStore
    from milepost.store.sqlite import SqliteStore

    expected = {}
    client = redis.Redis.from_url(url)
    with SqliteSaver.from_conn_string(str(folder / "open.db")) as saver:
        fill(saver)
        expected["open.db"] = told(saver)
    with RedisSaver.from_conn_string(url) as on_redis:
        fill(on_redis)
        expected["open.redis.json"] = told(on_redis)
    with SqliteStore.from_conn_string(str(folder / "vectors.db"), index=INDEX) as store:
        fill_store(store)
        expected["vectors.db"] = found(store)
    (folder / "open.redis.json").write_text(json.dumps(dumped(client), indent=0), "utf-8")
    client.flushall()
    with RedisStore.from_conn_string(url, index=INDEX) as store:
        fill_store(store)
        expected["vectors.redis.json"] = found(store)
    (folder / "vectors.redis.json").write_text(json.dumps(dumped(client), indent=0), "utf-8")
    (folder / "open.json").write_text(json.dumps(expected, indent=0), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
