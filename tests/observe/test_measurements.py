"""What is counted and timed."""

import threading
from functools import partial

import pytest
from traced_graphs import AT_ONCE, State, story

from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import ThreadConflict
from milepost.graph import START, StateGraph
from milepost.types import Command


def test_runs_are_counted_by_outcome(run, config, recorded):
    graph = story().compile(checkpointer=InMemorySaver(), name="outer")
    run.invoke(graph, {"log": []}, config)
    run.invoke(graph, Command(resume="yes"), config)

    def node(state):
        raise LookupError

    failing = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(name="bad")
    with pytest.raises(LookupError):
        run.invoke(failing, {"log": []})

    counted = {
        (
            point.attributes["gen_ai.workflow.name"],
            point.attributes["milepost.outcome"],
        ): point.value
        for point in recorded.points("milepost.runs")
    }
    assert counted == {
        ("outer", "interrupted"): 1,
        ("outer", "success"): 1,
        ("inner", "success"): 1,
        ("bad", "error"): 1,
    }


def test_steps_loads_and_commits_are_timed(run, saver, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)

    for name, spans in [
        ("step", [s for s in recorded.spans() if s.name.startswith("super_step")]),
        ("load", recorded.named("load")),
        ("commit", recorded.named("commit")),
    ]:
        points = recorded.points(f"milepost.{name}.duration")
        assert sum(point.count for point in points) == len(spans) > 0
        assert sum(point.sum for point in points) > 0


def test_bytes_that_are_stored_are_counted(run, tmp_path, config, recorded):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = story().compile(checkpointer=saver, name="outer")
        run.invoke(graph, {"log": ["x" * 10_000]}, config)

    counted = sum(point.value for point in recorded.points("milepost.commit.bytes"))
    told = sum(span.attributes["milepost.bytes"] for span in recorded.named("commit"))
    assert counted == told > 10_000


def test_retries_are_counted_by_node(run, recorded):
    failures = [ValueError()]

    def node(state):
        if failures:
            raise failures.pop()

    builder = StateGraph(State).add_node("node", node, retry_policy=AT_ONCE)
    run.invoke(builder.add_edge(START, "node").compile(), {"log": []})

    (point,) = recorded.points("milepost.retries")
    assert (point.value, point.attributes["milepost.node"]) == (1, "node")


def test_conflicts_are_counted(run, saver, config, recorded):
    def node(state):
        run_of_another = StateGraph(State).add_node("n", lambda s: {"log": [0]})
        other = run_of_another.add_edge(START, "n").compile(checkpointer=saver)
        take = partial(other.invoke, {"log": []}, config, durability="sync")
        taking = threading.Thread(target=take)
        taking.start()
        taking.join()
        return {"log": [1]}

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph = builder.compile(checkpointer=saver, name="late")
    with pytest.raises(ThreadConflict):
        run.invoke(graph, {"log": []}, config, durability="sync")

    (point,) = recorded.points("milepost.conflicts")
    assert (point.value, point.attributes["gen_ai.workflow.name"]) == (1, "late")


def test_the_backlog_is_what_waits_for_the_saver(recorded, config):
    go_on = threading.Event()
    seen = []

    class Slow(SqliteSaver):
        def commit(self, steps):
            go_on.wait(10)
            return super().commit(steps)

    def second(state):
        seen.extend(point.value for point in recorded.points("milepost.backlog"))
        go_on.set()

    builder = StateGraph(State).add_node("first", lambda s: {"log": [1]}).add_node("second", second)
    builder.add_edge(START, "first").add_edge("first", "second")
    with Slow.from_conn_string(":memory:") as saver:
        builder.compile(checkpointer=saver).invoke({"log": []}, config, durability="async")

    assert seen[0] >= 1
    assert [point.value for point in recorded.points("milepost.backlog")] == [0]


def test_exemplars_lead_from_a_duration_to_its_span(run, saver, config, recorded):
    graph = story().compile(checkpointer=saver, name="outer")
    run.invoke(graph, {"log": []}, config)
    measured = recorded.all_points()

    for name, spans in [
        ("step", [s for s in recorded.spans() if s.name.startswith("super_step")]),
        ("load", recorded.named("load")),
        ("commit", recorded.named("commit")),
    ]:
        points = measured[f"milepost.{name}.duration"]
        exemplars = [exemplar for point in points for exemplar in point.exemplars]
        assert exemplars
        assert {e.span_id for e in exemplars} <= {span.context.span_id for span in spans}
