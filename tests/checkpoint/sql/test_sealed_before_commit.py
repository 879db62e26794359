"""Values are sealed when a step is prepared, not while its transaction or its turn is waited for."""

from typing import Any

import pytest

from graphs import appends, line, thread
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph


class Watched(JsonPlusSerializer):
    """Notes which kinds of cells are sealed, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.is_committing = False
        self.sealed: dict[bool, set[str]] = {True: set(), False: set()}

    def seal(self, data: bytes, place: str) -> bytes:
        self.sealed[self.is_committing].add(place.split("\0")[0])
        return b"sealed " + data

    def unseal(self, data: bytes, place: str) -> bytes:
        return data.removeprefix(b"sealed ")


@pytest.fixture(params=["sqlite", "postgres"])
def watched(request: pytest.FixtureRequest) -> Any:
    """A saver whose serializer knows when a step is being stored."""
    serde = Watched()
    if request.param == "sqlite":
        opened: Any = SqliteSaver.from_conn_string(request.getfixturevalue("path"), serde=serde)
    else:
        opened = PostgresSaver.from_conn_string(request.getfixturevalue("uri"), serde=serde)
    with opened as saver:
        saver.setup()
        commit = saver.commit

        def watched_commit(steps: Any) -> Any:
            serde.is_committing = True
            try:
                return commit(steps)
            finally:
                serde.is_committing = False

        saver.commit = watched_commit
        yield saver


def test_values_are_sealed_before_the_commit(watched: Any) -> None:
    """Full rows, deltas, compactions, writes of siblings, inline writes and metadata are."""
    text = "a large value " * 200
    builder = StateGraph(line("x").state_schema)
    for name in ("a", "b", "c"):
        builder.add_node(name, appends(f"{name} {text}")).add_edge(START, name)
    wide = builder.compile(checkpointer=watched)
    for turn in range(30):
        wide.invoke({"log": [f"{turn} {text}"]}, thread("t"), durability="sync")
    line("x").compile(checkpointer=watched).invoke({}, thread("short"), durability="sync")
    serde = watched.serde
    assert serde.sealed[False] == {"blob", "write", "led", "metadata"}
    # A manifest has the number of rows of writes, and so has metadata as long as a step goes on.
    assert serde.sealed[True] <= {"frame", "metadata"}
    assert len(wide.get_state(thread("t")).values["log"]) == 120
    assert watched.verify() == []
