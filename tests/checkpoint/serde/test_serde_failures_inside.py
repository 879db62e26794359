"""Failures that hold other failures: each is recorded, whatever it holds."""

from typing import Any

import pytest

from milepost.graph import START, StateGraph


class Failed(Exception):
    """A class that no registry knows."""


def long_repr() -> BaseException:
    class Shown(Exception):  # nothing finds it here, so it is stored as a stand-in
        def __repr__(self) -> str:
            return "x" * 1_000_000

    return Shown("a")


def chain(length: int) -> BaseException:
    error: BaseException = ValueError("first")
    for _ in range(length):
        error = Failed("again", error)
    return error


def each_other() -> BaseException:
    one, other = Failed("one"), Failed("other")
    one.args, other.args = (other,), (one,)
    return one


def itself() -> BaseException:
    error = Failed()
    error.args = (error,)
    return error


@pytest.mark.parametrize(
    "made", [lambda: chain(3), lambda: chain(150), each_other, itself, long_repr]
)
def test_a_failure_is_raised_and_recorded(saver, config, made):
    error = made()

    def fails(state: Any) -> Any:
        raise error

    graph = StateGraph(dict).add_node("n", fails).add_edge(START, "n").compile(checkpointer=saver)
    with pytest.raises(type(error)):
        graph.invoke({}, config)
    [task] = graph.get_state(config).tasks
    assert task.name == "n"
    assert 0 < len(str(task.error)) < 10_000
