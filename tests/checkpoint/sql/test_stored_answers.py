"""The answer to an interrupt is stored before its node runs, and looks up nothing that is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost._db.operations import ConditionalInsert, GuardedBatch
from milepost.errors import ThreadConflict
from milepost.graph import END, START, StateGraph
from milepost.types import Command, interrupt

CONFIG = thread("t")
LAST = 3


class Sum(TypedDict):
    total: int


def asking(saver: Any) -> Any:
    """A loop whose node asks for what it adds; it does not take zero."""

    def ask(state: Sum) -> Sum:
        by: int = interrupt("by how much?")
        if by == 0:
            raise ValueError("by nothing")
        return {"total": state["total"] + by}

    builder = StateGraph(Sum).add_node("ask", ask).add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda s: "ask" if s["total"] < LAST else END)
    return builder.compile(checkpointer=saver)


@contextmanager
def statements_of_commits(saver: Any) -> Iterator[list[list[Any]]]:
    """The statements of each transaction that stores steps."""
    store, found = saver._storer.steps, []

    def steps(given: Any) -> Any:
        found.append(asked := [])
        operation = store(given)
        answer = None
        while True:
            try:
                asked.append(operation.send(answer))
            except StopIteration as done:
                return done.value
            answer = yield asked[-1]

    saver._storer.steps = steps
    try:
        yield found
    finally:
        saver._storer.steps = store


def test_answers_and_what_follows_them_look_nothing_up(saver):
    graph = asking(saver)
    graph.invoke({"total": 0}, CONFIG, durability="sync")
    with statements_of_commits(saver) as commits:
        for _ in range(LAST):
            found = graph.invoke(Command(resume=1), CONFIG, durability="sync")
    assert found == {"total": LAST}
    kinds = [[type(statement) for statement in commit] for commit in commits]
    answer, step, question = [GuardedBatch], [ConditionalInsert], [GuardedBatch]
    assert kinds == [answer, step, question, answer, step, question, answer, [GuardedBatch]]
    assert saver.verify() == []


def test_a_saver_that_has_not_seen_the_thread_takes_answers_as_well(saver, reopen):
    asking(saver).invoke({"total": 0}, CONFIG, durability="sync")
    for _ in range(LAST):
        with reopen() as other:
            found = asking(other).invoke(Command(resume=1), CONFIG, durability="sync")
    assert found == {"total": LAST}
    states = list(asking(saver).get_state_history(CONFIG))
    assert [state.values.get("total") for state in states] == [3, 2, 1, 0, None]
    assert [task.result for state in states[1:4] for task in state.tasks] == [
        {"total": total} for total in (3, 2, 1)
    ]
    assert saver.verify() == []


def test_an_answer_is_refused_where_another_has_come_in_between(saver, reopen, monkeypatch):
    """The other one leads nowhere, so the thread is at rest again, at the same checkpoint."""
    graph = asking(saver)
    graph.invoke({"total": 0}, CONFIG, durability="sync")
    load, loaded = saver.get_tuple, []

    def overtaken(config: Any) -> Any:
        found = load(config)
        if not loaded:
            loaded.append(found)
            with reopen() as other, pytest.raises(ValueError, match="by nothing"):
                asking(other).invoke(Command(resume=0), CONFIG, durability="sync")
        return found

    monkeypatch.setattr(saver, "get_tuple", overtaken)
    with pytest.raises(ThreadConflict, match="has moved on"):
        graph.invoke(Command(resume=1), CONFIG, durability="sync")
    assert graph.get_state(CONFIG).values == {"total": 0}
    assert graph.invoke(Command(resume=1), CONFIG, durability="sync")["total"] == 1
    assert saver.verify() == []


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def saver(request: pytest.FixtureRequest) -> Any:
    """An empty saver of each kind that has a database."""
    return request.getfixturevalue(request.param)
