"""Types that a node is given by the function that makes its graph are stored like those of its
module. Every test is one program that runs on both libraries."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

import pytest

LIBRARY = """
from dataclasses import dataclass
from typing import Any
from typing_extensions import TypedDict

class Answered(TypedDict):
    answer: Any

@dataclass
class Format:
    schema: Any

def bare(kind, value):
    def node(state):
        assert kind
        return {"answer": value()}
    return node

def in_an_object(kind, value):
    return bare(Format(kind), value)

def in_a_list(kind, value):
    return bare([kind], value)

def in_an_inner_function(kind, value):
    inner = bare(kind, value)
    def node(state):
        return inner(state)
    return node
"""

USER = """
from dataclasses import dataclass

@dataclass
class Answer:
    text: str

@dataclass
class Refusal:
    text: str
"""


_number = count()


@dataclass
class Modules:
    library: Any
    user: Any


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Modules:
    """A library that makes nodes, and a program that has types; names that no other test uses."""
    made = []
    for kind, source in (("library", LIBRARY), ("user", USER)):
        name = f"{kind}_{next(_number)}"
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(source, vars(module))
        made.append(module)
    return Modules(*made)


def stored(run: Any, lib: Any, modules: Modules, node: Any) -> Any:
    """The answer as it is read back from a thread of a graph with this node."""
    builder = lib.StateGraph(modules.library.Answered)
    builder.add_node("node", node)
    builder.add_edge(lib.START, "node")
    graph = builder.compile(checkpointer=lib.InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    run.invoke(graph, {"answer": None}, thread)
    return run.get_state(graph, thread).values["answer"]


@pytest.mark.parametrize("held", ["bare", "in_an_object", "in_a_list", "in_an_inner_function"])
def test_a_type_that_a_nodes_function_closes_over_is_stored(run, lib, modules, held):
    answer = modules.user.Answer("yes")
    node = getattr(modules.library, held)(modules.user.Answer, lambda: answer)
    assert stored(run, lib, modules, node) == answer


def test_all_types_of_a_union_that_is_closed_over_are_stored(run, lib, modules):
    refusal = modules.user.Refusal("no")
    node = modules.library.in_an_object(modules.user.Answer | modules.user.Refusal, lambda: refusal)
    assert stored(run, lib, modules, node) == refusal


def test_types_beside_the_function_in_a_langchain_lambda_are_stored(run, lib, modules):
    runnables = pytest.importorskip("langchain_core.runnables")
    exec("def node(state): return {'answer': Answer('yes')}", vars(modules.user))
    node = runnables.RunnableLambda(modules.user.node)
    assert stored(run, lib, modules, node) == modules.user.Answer("yes")
