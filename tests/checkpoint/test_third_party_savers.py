"""Savers that have only the five methods of the contract, in one colour or both."""

import asyncio
import operator
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import Log, appends, elsewhere, line, steps, two_nodes
from milepost.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from milepost.errors import MilepostError
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt


class FiveMethods(BaseCheckpointSaver[int]):
    """What a reader of the documents would write: everything in two dicts, sync only."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[tuple[str, str, str], Any] = {}
        self.task_rows: dict[tuple[str, str, str], dict[tuple[str, int], Any]] = {}
        self.puts: list[int] = []

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        where = config["configurable"]
        key = (where["thread_id"], where.get("checkpoint_ns", ""), checkpoint["id"])
        self.rows[key] = (
            self.serde.dumps_typed(checkpoint),
            self.serde.dumps_typed(metadata),
            where.get("checkpoint_id"),
        )
        self.puts.append(metadata["step"])
        return self._config(key)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        where = config["configurable"]
        key = (where["thread_id"], where.get("checkpoint_ns", ""), where["checkpoint_id"])
        rows = self.task_rows.setdefault(key, {})
        for position, (channel, value) in enumerate(writes):
            place = (task_id, WRITES_IDX_MAP.get(channel, position))
            if place[1] < 0 or place not in rows:
                rows[place] = (channel, self.serde.dumps_typed(value))

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return next(self.list(config, limit=1), None)

    def list(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None
    ) -> Iterator[CheckpointTuple]:
        where = config["configurable"] if config else {}
        found = 0
        for key in sorted(self.rows, key=lambda key: key[2], reverse=True):
            checkpoint, metadata, parent = self.rows[key]
            known = self.serde.loads_typed(metadata)
            if (
                where.get("thread_id", key[0]) != key[0]
                or where.get("checkpoint_ns", "") != key[1]
                or where.get("checkpoint_id", key[2]) != key[2]
                or (before and key[2] >= before["configurable"]["checkpoint_id"])
                or any(known.get(k) != v for k, v in (filter or {}).items())
            ):
                continue
            if limit is not None and found >= limit:
                return
            found += 1
            yield CheckpointTuple(
                self._config(key),
                self.serde.loads_typed(checkpoint),
                known,
                self._config((*key[:2], parent)) if parent else None,
                [
                    (task, channel, self.serde.loads_typed(value))
                    for (task, _), (channel, value) in self.task_rows.get(key, {}).items()
                ],
            )

    def delete_thread(self, thread_id: str) -> None:
        for rows in (self.rows, self.task_rows):
            for key in [key for key in rows if key[0] == thread_id]:
                del rows[key]

    @staticmethod
    def _config(key: Any) -> Any:
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")
        return {"configurable": dict(zip(names, key, strict=True))}


class FiveAsyncMethods(BaseCheckpointSaver[int]):
    """The same with the async five only; it gives way to the loop before each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = FiveMethods()
        self.puts = self.inner.puts

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        await asyncio.sleep(0)
        return self.inner.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.sleep(0)
        self.inner.put_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        await asyncio.sleep(0)
        return self.inner.get_tuple(config)

    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None
    ) -> AsyncIterator[CheckpointTuple]:
        await asyncio.sleep(0)
        for found in self.inner.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)


@pytest.fixture
def foreign(run):
    """A third-party saver of the colour in which the graph is run."""
    return FiveMethods() if run.colour == "sync" else FiveAsyncMethods()


@pytest.mark.parametrize("make", [FiveMethods, FiveAsyncMethods])
def test_a_saver_of_either_colour_gives_a_result_or_a_named_error_at_once(
    run, config, durability, make
):
    graph = two_nodes().compile(checkpointer=make())

    def program() -> Any:
        run.invoke(graph, {"foo": ""}, config, durability=durability)
        return run.get_state(graph, config).values, len(run.history(graph, config))

    try:
        outcome = elsewhere(program)
    except MilepostError as error:
        outcome = str(error)
    if isinstance(outcome, str):
        assert make is not (FiveMethods if run.colour == "sync" else FiveAsyncMethods)
        assert make.__name__ in outcome
    else:
        assert outcome == ({"foo": "b", "bar": ["a", "b"]}, 1 if durability == "exit" else 4)


def test_a_foreign_saver_gets_the_documents_four_checkpoints(run, foreign, config):
    graph = two_nodes().compile(checkpointer=foreign)
    run.invoke(graph, {"foo": ""}, config)
    assert foreign.puts == [-1, 0, 1, 2]
    assert steps(run.history(graph, config)) == [
        (2, "loop", ()),
        (1, "loop", ("node_b",)),
        (0, "loop", ("node_a",)),
        (-1, "input", ("__start__",)),
    ]


def test_under_exit_a_foreign_saver_is_asked_to_store_once(run, foreign, config):
    graph = two_nodes().compile(checkpointer=foreign)
    run.invoke(graph, {"foo": ""}, config, durability="exit")
    assert foreign.puts == [2]


def test_under_sync_a_foreign_saver_has_stored_each_step_before_the_next(run, foreign, config):
    seen: list[list[int]] = []

    def node(state: Log) -> None:
        seen.append(list(foreign.puts))

    builder = StateGraph(Log).add_sequence([("a", node), ("b", node)]).add_edge(START, "a")
    run.invoke(builder.compile(checkpointer=foreign), {}, config, durability="sync")
    assert seen == [[-1, 0], [-1, 0, 1]]


def test_a_foreign_saver_remembers_replays_and_forks(run, foreign, config, durability):
    graph = line("a", "b").compile(checkpointer=foreign)
    run.invoke(graph, {}, config, durability="sync")
    old = next(s for s in run.history(graph, config) if s.next == ("b",)).config
    assert run.invoke(graph, None, old, durability=durability)["log"] == ["a", "b"]
    fork = run.update_state(graph, old, {"log": ["fork"]})
    assert run.invoke(graph, None, fork, durability=durability)["log"] == ["a", "fork", "b"]
    result = run.invoke(graph, {"log": ["more"]}, config, durability=durability)
    assert result["log"] == ["a", "fork", "b", "more", "a", "b"]


def test_a_foreign_saver_keeps_pending_writes_and_interrupts(run, foreign, config, durability):
    ran: list[str] = []

    def ask(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("?")]}

    builder = StateGraph(Log).add_node("a", appends("a", ran)).add_node(ask)
    graph = builder.add_edge(START, "a").add_edge(START, "ask").compile(checkpointer=foreign)
    run.invoke(graph, {}, config, durability=durability)
    assert [i.value for i in run.get_state(graph, config).interrupts] == ["?"]
    result = run.invoke(graph, Command(resume="!"), config, durability=durability)
    assert result["log"] == ["a", "!"]
    assert ran == ["a"]


def test_a_foreign_saver_deletes_threads(run, foreign, config):
    graph = line("a").compile(checkpointer=foreign)
    run.invoke(graph, {}, config)
    run.delete_thread(graph, "t")
    assert run.history(graph, config) == []
    assert run.invoke(graph, {}, config)["log"] == ["a"]


def test_a_foreign_saver_counts_versions_in_integers(run, foreign, config):
    class Sum(TypedDict):
        total: Annotated[int, operator.add]

    builder = StateGraph(Sum).add_node("node", lambda state: {"total": 1}).add_edge(START, "node")
    graph = builder.compile(checkpointer=foreign)
    for _ in range(12):
        run.invoke(graph, {}, config)
    assert run.get_state(graph, config).values == {"total": 12}
    versions = run.saver(foreign, "get", config)["channel_versions"]
    assert all(isinstance(version, int) for version in versions.values())


def test_sends_that_a_foreign_saver_returns_beside_the_channels_are_run(run, foreign, config):
    """As savers did before format 4, in which Sends are a channel."""
    builder = StateGraph(Log).add_node("n", lambda state: {"log": [state["log"]]})
    made: Any = {"v": 3, "id": "1", "ts": "2025-04-02T15:20:01+00:00", "versions_seen": {}}
    made |= {"channel_values": {"log": []}, "channel_versions": {"log": 1}}
    made["pending_sends"] = [Send("n", {"log": one}) for one in "ab"]
    metadata: Any = {"source": "loop", "step": 0, "parents": {}}
    run.saver(foreign, "put", {**config}, made, metadata, {"log": 1})
    graph = builder.add_edge(START, "n").compile(checkpointer=foreign)
    assert run.get_state(graph, config).next == ("n", "n")
    assert run.invoke(graph, None, config)["log"] == ["a", "b"]
