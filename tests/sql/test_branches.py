"""A thread that is changed in the past again and again stays as readable as one in memory.

Branches share the rows of what they have in common, and each stores some of these anew. The
operations are random; what a saver on a database has then must be what one in memory has.
"""

import operator
import random
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph

LONG = "y" * 300
"""Long enough for a row of its own."""


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def appending(saver: Any) -> Any:
    """a -> b -> c, each of which adds to the log."""
    builder = StateGraph(Log).add_sequence(
        [(name, lambda _, name=name: {"log": [name + LONG]}) for name in "abc"]
    )
    return builder.add_edge(START, "a").compile(checkpointer=saver)


CONFIG = thread("t")
OPERATIONS = {
    "input": lambda graph, _: graph.invoke({"log": ["in"]}, CONFIG, durability="sync"),
    "replay": lambda graph, past: graph.invoke(None, past, durability="sync"),
    "update": lambda graph, past: graph.update_state(past, {"log": [LONG]}, as_node="a"),
    "copy": lambda graph, past: graph.update_state(past, None, as_node="__copy__"),
}


def states(graph: Any) -> list[Any]:
    return [(old.values, old.next) for old in graph.get_state_history(CONFIG)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("names", [["input", "update"], list(OPERATIONS)], ids=["few", "all"])
def test_every_branch_reads_as_in_memory(saver, memory, reopen, names, seed):
    rng = random.Random(seed)
    graphs = [appending(saver), appending(memory)]
    for graph in graphs:
        OPERATIONS["input"](graph, None)
    for _ in range(30):
        operation = OPERATIONS[rng.choice(names)]
        states(graphs[0])  # what was read is what the next rows stand on
        histories = [list(graph.get_state_history(CONFIG)) for graph in graphs]
        at = rng.randrange(min(8, len(histories[0])))
        for graph, history in zip(graphs, histories, strict=True):
            operation(graph, history[at].config)
    expected = states(graphs[1])
    assert states(graphs[0]) == expected
    with reopen() as other:
        assert states(appending(other)) == expected
        assert not other.verify()


def test_a_row_stands_on_no_row_that_stands_on_it(path):
    """Two updates in the past, and inputs with a look at the history before each."""
    with SqliteSaver.from_conn_string(path) as saver:
        graph = appending(saver)
        OPERATIONS["input"](graph, None)
        for _ in range(2):
            OPERATIONS["update"](graph, list(graph.get_state_history(CONFIG))[1].config)
        for _ in range(3):
            states(graph)
            OPERATIONS["input"](graph, None)
        assert len(states(graph)) == 22
        assert not saver.verify()
