"""A thread that is changed in the past again and again stays readable.

Branches share what they have in common, and each stores some of that again as parts of what comes
later. The operations are random; what our savers have then must be what one has that stores every
checkpoint whole.
"""

import operator
import os
import random
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost.channels import EphemeralValue
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from savers import WholeSaver

CONFIG = thread("t")
SIZES = (5, 100, 400, 900, 3000)
"""Of texts: on both sides of what has a row of its own, and a place among the large ones."""

LATEST = 8
"""Checkpoints at which a branch may begin."""

LONG = bool(os.environ.get("MILEPOST_LONG"))
ON_REDIS = ["redis"] if LONG else []
"""In the long form only: what is stored is worked out by the code that the others use."""


def by_id(old: list[Any], new: list[Any]) -> list[Any]:
    """A message takes the place of the one with its id; without content it removes that."""
    kept = {message["id"]: message for message in [*old, *new]}
    return [message for message in kept.values() if message["content"]]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    messages: Annotated[list[Any], by_id]
    table: Annotated[dict[str, str], operator.or_]
    text: str


class Changes:
    """Random updates; from one number on always the same ones."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.number = 0

    def __call__(self, _: Any = None) -> dict[str, Any]:
        self.number += 1
        rng = random.Random(f"{self.seed} {self.number}")

        def text() -> str:
            return "".join(rng.choices("abcdefgh ", k=rng.choice(SIZES)))

        message = {"id": rng.randrange(20), "content": text() if rng.random() < 0.8 else ""}
        all_changes = {
            "log": [text()],
            "messages": [message],
            "table": {rng.choice("abc"): text()},
            "text": text(),
        }
        return dict(rng.sample(list(all_changes.items()), rng.randrange(1, 3)))


def changing(saver: Any, changes: Changes) -> Any:
    """a -> b -> c, each of which changes something."""
    builder = StateGraph(State).add_sequence([(name, changes) for name in "abc"])
    return builder.add_edge(START, "a").compile(checkpointer=saver)


OPERATIONS = {
    "input": lambda graph, given, _: graph.invoke(given, CONFIG, durability="sync"),
    "update": lambda graph, given, past: graph.update_state(past, given, as_node="a"),
    "replay": lambda graph, _, past: graph.invoke(None, past, durability="sync"),
    "copy": lambda graph, _, past: graph.update_state(past, None, as_node="__copy__"),
}


def states(graph: Any) -> list[Any]:
    return [(old.values, old.next) for old in graph.get_state_history(CONFIG)]


@pytest.fixture(params=["memory", "sqlite", "postgres", *ON_REDIS])
def saver(request: pytest.FixtureRequest) -> Any:
    """An empty saver of each kind."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("seed", [0, 1, 94, 113])
@pytest.mark.parametrize("names", [["input", "update"], list(OPERATIONS)], ids=["few", "all"])
def test_every_branch_reads_as_if_it_were_stored_whole(saver, reopen, names, seed):
    if isinstance(saver, PostgresSaver) and seed not in (0, 94) and not LONG:
        pytest.skip("in the long form only: SQLite has the same rows")
    rng = random.Random(seed)
    changes = Changes(seed)
    graphs = [changing(saver, changes), changing(WholeSaver(), changes)]
    for number in range(30):
        operation = OPERATIONS[rng.choice(names) if number else "input"]
        states(graphs[0])  # what was read is what the next rows stand on
        given, at, before = changes(), rng.randrange(LATEST), changes.number
        for graph in graphs:
            changes.number = before
            history = list(graph.get_state_history(CONFIG, limit=LATEST))
            operation(graph, given, history[at % len(history)].config if history else CONFIG)
    expected = states(graphs[1])
    assert states(graphs[0]) == expected
    with reopen() as other:
        assert states(changing(other, changes)) == expected
        assert saver.__class__.__name__ == "InMemorySaver" or not other.verify()


def test_a_row_stands_on_no_row_that_stands_on_it(path):
    """Two updates in the past, and inputs with a look at the history before each."""

    def adds(_: Any) -> dict[str, list[str]]:
        return {"log": ["y" * 300]}

    with SqliteSaver.from_conn_string(path) as saver:
        builder = StateGraph(State).add_sequence([(name, adds) for name in "abc"])
        graph = builder.add_edge(START, "a").compile(checkpointer=saver)
        given = {"log": ["in"]}
        OPERATIONS["input"](graph, given, None)
        for _ in range(2):
            past = list(graph.get_state_history(CONFIG))[1].config
            OPERATIONS["update"](graph, {"log": ["u" * 200]}, past)
        for _ in range(3):
            states(graph)
            OPERATIONS["input"](graph, given, None)
        assert len(states(graph)) == 22
        assert not saver.verify()


class Passed(TypedDict, total=False):
    here: Annotated[list[str], EphemeralValue]
    there: Annotated[list[str], EphemeralValue]


@pytest.mark.parametrize("saver", ["sqlite", "postgres", *ON_REDIS], indirect=True)
def test_a_value_that_goes_back_and_forth_is_no_part_of_what_stands_on_it(saver, reopen):
    """Each channel is emptied when the other one gets what it had."""

    def passes(name: str, other: str, *more: str) -> Any:
        return lambda state: {name: [*state.get(other, ()), *more]}

    steps = [
        ("a", passes("here", "there", "a" * 500)),
        ("b", passes("there", "here", "b" * 300)),
        ("c", passes("here", "there")),
        ("d", passes("there", "here", "d" * 300)),
    ]

    def passing(saver: Any) -> Any:
        builder = StateGraph(Passed).add_sequence(steps)
        return builder.add_edge(START, "a").compile(checkpointer=saver)

    graphs = [passing(saver), passing(WholeSaver())]
    for graph in graphs:
        for _ in range(2):
            graph.invoke({}, CONFIG, durability="sync")
    with reopen() as other:
        assert states(passing(other)) == states(graphs[1])
        assert not other.verify()
