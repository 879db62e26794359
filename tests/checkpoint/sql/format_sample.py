"""A database as a release writes it, with all that is stored in one way or another.

`python tests/checkpoint/sql/format_sample.py tests/data/formats/0.2` makes the sample of the present
version. It is done once for each release that changes what is stored, and kept for good.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import operator
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from milepost.store.sqlite import SqliteStore
from milepost.types import interrupt

KEY = b"a key of sixteen"
CHAT, ASKING, FAILING, VALUES = "chat", "asking", "failing", "values"


class State(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    summary: str
    odd: Any


def at(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def answer(state: State) -> State:
    count = len(state["messages"])
    return {"messages": [{"role": "assistant", "content": f"{count} " * 40}], "summary": str(count)}


def ask(state: State) -> State:
    return {"messages": [interrupt({"question": "sure?"})]}


def fine(state: State) -> State:
    return {"messages": ["fine"]}


def fails(state: State) -> State:
    if not is_repaired:
        raise RuntimeError("not yet")
    return {"messages": ["repaired"]}


is_repaired = False


def chatting(saver: Any) -> Any:
    return StateGraph(State).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)


def asking(saver: Any) -> Any:
    inner = StateGraph(State).add_node(ask).add_edge(START, "ask").compile()
    outer = StateGraph(State).add_node("inner", inner).add_edge(START, "inner")
    return outer.compile(checkpointer=saver)


def failing(saver: Any) -> Any:
    graph = StateGraph(State).add_node(fine).add_node(fails)
    return graph.add_edge(START, "fine").add_edge(START, "fails").compile(checkpointer=saver)


ODD: dict[str, Any] = {
    "none": None,
    "numbers": [1, -(2**70), 1.5, True],
    "text": "ä\n\u2028",
    "bytes": b"\x00\xff",
    "time": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "decimal": decimal.Decimal("1.10"),
    "uuid": uuid.UUID(int=7),
    "set": {3},
    "tuple": (1, (2,)),
    "large": "x" * 100_000,
}


def fill(saver: Any) -> None:
    chat = chatting(saver)
    for turn in range(30):
        chat.invoke({"messages": [{"role": "user", "content": f"turn {turn}"}]}, at(CHAT))
    old = list(chat.get_state_history(at(CHAT)))[40]
    chat.invoke(None, chat.update_state(old.config, {"summary": "forked"}))
    chat.invoke({"messages": [], "odd": ODD}, at(VALUES))
    asking(saver).invoke({"messages": ["in"]}, at(ASKING))
    try:
        failing(saver).invoke({"messages": []}, at(FAILING), durability="sync")
    except RuntimeError:
        saver.create_thread(FAILING, {"owner": "u1"})


def short(text: str) -> str:
    return text if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest()


def told(saver: Any) -> dict[str, Any]:
    """What can be read: every state of every thread, as text, or its digest."""
    graphs = {CHAT: chatting, VALUES: chatting, ASKING: asking, FAILING: failing}
    return {
        thread_id: [
            [
                state.config["configurable"]["checkpoint_id"],
                short(repr(sorted(state.values.items()))),
                list(state.next),
                state.metadata["source"],
                [[task.name, str(task.error), len(task.interrupts)] for task in state.tasks],
            ]
            for state in make(saver).get_state_history(at(thread_id))
        ]
        for thread_id, make in graphs.items()
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY)
    with SqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        fill(saver)
        (folder / "threads.dump").write_text("".join(f"{line}\n" for line in saver.dump()), "utf-8")
        expected = {"threads.db": told(saver)}
    with SqliteSaver.from_conn_string(str(folder / "sealed.db"), serde=serde) as saver:
        fill(saver)
        expected["sealed.db"] = told(saver)
    with SqliteStore.from_conn_string(str(folder / "store.db")) as store:
        store.put(("users", "u1"), "food", {"likes": ["soup"], "at": 1})
        store.put(("users", "u2"), "food", {"likes": "rice"})
    (folder / "expected.json").write_text(json.dumps(expected, indent=0), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
