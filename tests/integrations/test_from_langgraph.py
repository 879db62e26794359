"""LangGraph's savers in milepost's graphs."""

from __future__ import annotations

from typing import Any

import pytest
from libraries import LANGGRAPH, MILEPOST, cases, opened
from stories import STORIES, history, line, says, squares, thread
from test_moving import Approval, answers

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.memory import InMemorySaver
from milepost.integrations.langgraph import from_langgraph

pytest.importorskip("langgraph.checkpoint.sqlite.aio")

from langgraph.checkpoint.memory import InMemorySaver as TheirInMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver as TheirSqliteSaver

CASES = cases(["memory", "sqlite", "postgres", "sqlite-async", "postgres-async"])


@pytest.mark.parametrize(("run", "kind"), CASES, indirect=["run"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_milepost_program_sees_what_it_sees_with_its_own_saver(story, run, kind, request):
    expected = story(MILEPOST, InMemorySaver(), run)
    saver = from_langgraph(opened("langgraph", "Saver", kind, request))
    assert story(MILEPOST, saver, run) == expected


def test_langgraphs_saver_becomes_one_of_mileposts_savers():
    assert isinstance(from_langgraph(TheirInMemorySaver()), BaseCheckpointSaver)


def test_only_a_langgraph_saver_is_wrapped():
    with pytest.raises(TypeError, match="from_langgraph needs a saver of LangGraph's"):
        from_langgraph(InMemorySaver())


def test_what_the_saver_cannot_do_is_not_simulated():
    with pytest.raises(NotImplementedError):
        from_langgraph(TheirInMemorySaver()).prune(["t"])


def test_a_long_history_comes_in_pages_and_in_order(run, tmp_path):
    with TheirSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as theirs:
        graph = line(MILEPOST, says("a")).compile(checkpointer=from_langgraph(theirs))
        for _ in range(25):
            run.invoke(graph, {"log": []}, thread())
        steps = [s.metadata["step"] for s in run.history(graph, thread())]
        assert steps == list(range(73, -2, -1))
        assert len(run.history(graph, thread(), limit=70)) == 70


def test_answered_questions_stay_in_the_history(run):
    def ask(state: Any) -> Any:
        return {"log": [MILEPOST.interrupt("one"), MILEPOST.interrupt("two")]}

    saver = from_langgraph(TheirInMemorySaver())
    graph = line(MILEPOST, ask, says("z")).compile(checkpointer=saver)
    run.invoke(graph, {"log": []}, thread())
    run.invoke(graph, MILEPOST.Command(resume=1), thread())
    run.invoke(graph, MILEPOST.Command(resume=2), thread())
    at = next(s for s in run.history(graph, thread()) if s.next == ("ask",))
    assert [i.value for i in at.tasks[0].interrupts] == ["one", "two"]


# -- what LangGraph left open in its own database


# In LangGraph's own graphs its sync savers cannot be used on a loop.
IN_BOTH = [case for case in CASES if case.id not in ("async-sqlite", "async-postgres")]


@pytest.mark.parametrize(("run", "kind"), IN_BOTH, indirect=["run"])
def test_a_thread_interrupted_in_langgraph_is_resumed_in_place(run, kind, request):
    saver = opened("langgraph", "Saver", kind, request)
    flow = Approval()
    theirs = flow.build(LANGGRAPH, saver)
    run.invoke(theirs, {"log": ["in"]}, thread())
    run.invoke(theirs, answers(LANGGRAPH, run.get_state(theirs, thread()), "A"), thread())
    flow.ran.clear()
    ours = flow.build(MILEPOST, from_langgraph(saver))
    snapshot = run.get_state(ours, thread(), subgraphs=True)
    assert snapshot.next == ("sub", "ask")
    assert [question.value for question in snapshot.interrupts] == ["second?", "second?"]
    [inner] = [task.state for task in snapshot.tasks if task.name == "sub"]
    assert inner.values == {"log": ["in", "c1"]}
    result = run.invoke(ours, answers(MILEPOST, snapshot, "B"), thread())
    # Neither `side` nor `c1` ran again, and the first answers were not asked for again.
    assert sorted(flow.ran) == ["ask", "ask", "c3", "z"]
    assert result["log"] == ["in", "A", "B", "side", "in", "c1", "A", "B", "c3", "z"]
    # Another process, which has seen nothing of this, sees the same, and LangGraph goes on.
    afresh = flow.build(MILEPOST, from_langgraph(saver))
    assert history(run, afresh, thread()) == history(run, ours, thread())
    assert run.invoke(theirs, {"log": ["again"]}, thread())["log"][10] == "again"


def test_answers_given_one_by_one_survive_a_restart(run):
    saver = TheirInMemorySaver()
    flow = Approval()
    run.invoke(flow.build(LANGGRAPH, saver), {"log": ["in"]}, thread())
    for _ in range(4):
        ours = flow.build(MILEPOST, from_langgraph(saver))
        question = run.get_state(ours, thread()).interrupts[0]
        answer = {"first?": "A", "second?": "B"}[question.value]
        result = run.invoke(ours, MILEPOST.Command(resume={question.id: answer}), thread())
    assert result["log"] == ["in", "A", "B", "side", "in", "c1", "A", "B", "c3", "z"]


def test_a_map_that_langgraph_left_open_is_finished_in_place(run):
    saver = TheirInMemorySaver()
    ran: list[int] = []

    run.invoke(squares(LANGGRAPH, saver, ran), {"log": []}, thread())
    ran.clear()
    ours = squares(MILEPOST, from_langgraph(saver), ran)
    assert run.invoke(ours, MILEPOST.Command(resume="yes"), thread()) == {"log": [0, 1, 4, 9]}
    assert ran == [2]
