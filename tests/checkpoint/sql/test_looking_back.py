"""A search for a state to go back to does not read the values of the states before it."""

from typing import Any

import pytest

from graphs import Log, thread
from milepost._engine.superstep.pending_writes import NULL_PREFIX
from milepost.checkpoint._sql.read.assembler import CheckpointAssembler
from milepost.checkpoint._sql.read.fetched import WriteRecord
from milepost.checkpoint._sql.read.values import Resolver
from milepost.errors import BrokenChainError, SerdeError
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt

CONFIG = thread("t")
LONG = "x" * 1000


def asking(saver: Any) -> Any:
    """Sends two tasks that write long lines, then asks."""

    def each(given: dict[str, str]) -> dict[str, list[str]]:
        return {"log": [given["word"] + LONG]}

    def ask(_: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("go on?")]}

    builder = StateGraph(Log).add_node("each", each).add_node("ask", ask)
    builder.add_conditional_edges(START, lambda _: [Send("each", {"word": w}) for w in "ab"])
    return builder.add_edge("each", "ask").compile(checkpointer=saver)


def fill(saver: Any) -> Any:
    """Three turns, of which the second has a fork, and the third waits for an answer."""
    graph = asking(saver)
    for _ in range(2):
        graph.invoke({"log": ["in" + LONG]}, CONFIG, durability="sync")
        graph.invoke(Command(resume="yes"), CONFIG, durability="sync")
    past = list(graph.get_state_history(CONFIG))[2]
    graph.update_state(past.config, {"log": ["fork" + LONG]}, as_node="each")
    graph.invoke({"log": ["in" + LONG]}, CONFIG, durability="sync")
    graph.invoke(Command(update={"log": ["outside"]}), CONFIG, durability="sync")
    return graph


def about(state: Any) -> dict[str, Any]:
    """All of it but the values."""
    return {name: getattr(state, name) for name in state._fields if name != "values"}


def test_all_but_the_values_is_known_without_reading_them(saver, reopen, monkeypatch):
    expected = [tuple(state) for state in fill(saver).get_state_history(CONFIG)]
    read = Resolver.value

    def unless_state(self: Resolver, channel: str, version: str) -> Any:
        assert channel != "log"
        return read(self, channel, version)

    with reopen() as other:
        states = list(asking(other).get_state_history(CONFIG))
        with monkeypatch.context() as patch:
            patch.setattr(Resolver, "value", unless_state)
            seen = [about(state) for state in states]
            with pytest.raises(AssertionError):
                _ = states[0].values
        assert [
            tuple({"values": s.values, **a}.values()) for s, a in zip(states, seen, strict=True)
        ] == expected
    assert {node for state in seen for node in state["next"]} == {START, "each", "ask"}
    assert seen[0]["interrupts"]


LOST = {
    "values": "DELETE FROM checkpoint_blobs WHERE base IS NULL AND channel = 'log'",
    "metadata": "UPDATE checkpoints SET metadata = frame",
    "tasks": "UPDATE checkpoints SET frame = metadata",
}


def test_values_of_the_history_are_known_without_decoding_the_writes_of_tasks(
    saver, reopen, monkeypatch
):
    expected = [state.values for state in fill(saver).get_state_history(CONFIG)]
    decoded = CheckpointAssembler.write

    def unless_of_a_task(self: CheckpointAssembler, write: WriteRecord) -> Any:
        assert write.task_id.startswith(NULL_PREFIX)
        return decoded(self, write)

    monkeypatch.setattr(CheckpointAssembler, "write", unless_of_a_task)
    with reopen() as other:
        states = asking(other).get_state_history(CONFIG)
        assert [state.values for state in states] == expected
    assert expected[0]["log"][-1] == "outside"  # which came from outside, and is not applied yet


@pytest.mark.parametrize("field", LOST)
def test_what_is_lost_is_told_to_whoever_looks_at_it(saver, reopen, field):
    """Not in a listing of states, not even where a fork has its parent elsewhere."""
    expected = [state.config for state in fill(saver).get_state_history(CONFIG)]
    saver.conn.execute(LOST[field])
    with reopen() as other:
        found = list(asking(other).get_state_history(CONFIG))
        assert [state.config for state in found] == expected
        for state in found[:-1]:
            with pytest.raises((BrokenChainError, SerdeError), match="thread 't'"):
                getattr(state, field)
