"""Threads and their checkpoints: what is saved, when, and how it is found again."""

import datetime
import time
import uuid
from typing import Any

import pytest

from graphs import Doc, Log, appends, id_of, line, single, steps, thread, two_nodes
from milepost.errors import (
    CheckpointNotFoundError,
    InvalidUpdateError,
    MissingThreadError,
    SaverError,
)
from milepost.graph import START, StateGraph
from milepost.types import Command, PregelTask, Send, StateSnapshot, interrupt

SAVING = pytest.mark.parametrize("durability", ["sync", "async"])
"""The modes that save every step."""

NO_THREAD = (
    "Checkpointer requires one or more of the following 'configurable' keys: "
    "thread_id, checkpoint_ns, checkpoint_id"
)


# -- the documents' example


@pytest.fixture
def documented(run, saver, config):
    graph = two_nodes().compile(checkpointer=saver)
    run.invoke(graph, {"foo": ""}, config)
    return graph


@SAVING
def test_the_documents_example_gives_exactly_four_checkpoints(run, saver, config, durability):
    graph = two_nodes().compile(checkpointer=saver)
    run.invoke(graph, {"foo": ""}, config, durability=durability)
    assert steps(run.history(graph, config)) == [
        (2, "loop", ()),
        (1, "loop", ("node_b",)),
        (0, "loop", ("node_a",)),
        (-1, "input", ("__start__",)),
    ]


def test_the_four_checkpoints_hold_the_values_that_the_documents_list(run, documented, config):
    assert [snapshot.values for snapshot in run.history(documented, config)] == [
        {"foo": "b", "bar": ["a", "b"]},
        {"foo": "a", "bar": ["a"]},
        {"foo": "", "bar": []},
        {"bar": []},
    ]


def test_the_metadata_shows_what_each_step_wrote(run, documented, config):
    assert [snapshot.metadata["writes"] for snapshot in run.history(documented, config)] == [
        {"node_b": {"foo": "b", "bar": ["b"]}},
        {"node_a": {"foo": "a", "bar": ["a"]}},
        None,
        {"foo": ""},
    ]


def test_get_state_shows_the_writes_of_the_last_step(run, documented, config):
    metadata = run.get_state(documented, config).metadata
    assert metadata["writes"] == {"node_b": {"foo": "b", "bar": ["b"]}}
    assert (metadata["source"], metadata["step"], metadata["parents"]) == ("loop", 2, {})


def test_the_writes_of_parallel_nodes_are_shown_by_node(run, saver, config):
    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, appends(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    writes = run.get_state(graph, config).metadata["writes"]
    assert writes == {"a": {"log": ["a"]}, "b": {"log": ["b"]}}


def test_each_checkpoint_names_the_one_before_it(run, documented, config):
    history = run.history(documented, config)
    assert [snapshot.parent_config for snapshot in history] == [
        *(snapshot.config for snapshot in history[1:]),
        None,
    ]


def test_the_config_of_a_checkpoint_names_thread_namespace_and_id(run, documented, config):
    for snapshot in run.history(documented, config):
        assert set(snapshot.config["configurable"]) == {
            "thread_id",
            "checkpoint_ns",
            "checkpoint_id",
        }
        assert snapshot.config["configurable"]["thread_id"] == "t"
        assert snapshot.config["configurable"]["checkpoint_ns"] == ""


def test_ids_and_times_of_creation_grow(run, documented, config):
    history = run.history(documented, config)
    ids = [id_of(snapshot.config) for snapshot in history]
    assert ids == sorted(ids, reverse=True)
    times = [datetime.datetime.fromisoformat(snapshot.created_at) for snapshot in history]
    assert times == sorted(times, reverse=True)
    assert all(moment.utcoffset() == datetime.timedelta(0) for moment in times)


def test_each_checkpoint_lists_its_tasks_with_their_results(run, documented, config):
    history = run.history(documented, config)
    assert all(isinstance(snapshot, StateSnapshot) for snapshot in history)
    assert [[(t.name, t.error, t.interrupts, t.state) for t in s.tasks] for s in history] == [
        [],
        [("node_b", None, (), None)],
        [("node_a", None, (), None)],
        [("__start__", None, (), None)],
    ]
    task = history[1].tasks[0]
    assert isinstance(task, PregelTask)
    assert task.result == {"foo": "b", "bar": ["b"]}
    assert task.path[-1] == "node_b"
    assert len({t.id for s in history for t in s.tasks}) == 3


def test_a_second_run_goes_on_counting(run, documented, config):
    run.invoke(documented, {"foo": "again"}, config)
    assert steps(run.history(documented, config))[:5] == [
        (6, "loop", ()),
        (5, "loop", ("node_b",)),
        (4, "loop", ("node_a",)),
        (3, "input", ("__start__",)),
        (2, "loop", ()),
    ]
    newest = run.history(documented, config)
    assert newest[3].parent_config == newest[4].config
    assert run.get_state(documented, config).values == {"foo": "b", "bar": ["a", "b", "a", "b"]}


def test_a_checkpoint_holds_every_documented_key(run, saver, documented, config):
    checkpoint = run.saver(saver, "get", config)
    assert set(checkpoint) >= {
        "v",
        "id",
        "ts",
        "channel_values",
        "channel_versions",
        "versions_seen",
        "updated_channels",
    }
    assert {k: checkpoint["channel_values"][k] for k in ("foo", "bar")} == {
        "foo": "b",
        "bar": ["a", "b"],
    }
    assert {"foo", "bar"} <= set(checkpoint["updated_channels"])
    assert {"foo", "bar"} <= set(checkpoint["channel_versions"])


# -- get_state


def test_get_state_of_an_empty_thread_is_an_empty_snapshot(run, saver, config):
    graph = two_nodes().compile(checkpointer=saver)
    state = run.get_state(graph, config)
    assert state.values == {}
    assert (state.next, state.tasks, state.interrupts) == ((), (), ())
    assert state.config["configurable"]["thread_id"] == "t"
    assert (state.metadata, state.created_at, state.parent_config) == (None, None, None)
    assert run.history(graph, config) == []


def test_reading_an_empty_thread_does_not_create_it(run, saver, config):
    graph = two_nodes().compile(checkpointer=saver)
    run.get_state(graph, config)
    run.history(graph, config)
    assert run.saver(saver, "list", None) == []
    if hasattr(saver, "storage"):
        assert list(saver.storage) == []


def test_get_state_gives_the_latest_checkpoint(run, documented, config):
    assert run.get_state(documented, config) == run.history(documented, config)[0]


def test_get_state_with_a_checkpoint_id_gives_that_checkpoint(run, documented, config):
    for snapshot in run.history(documented, config):
        assert run.get_state(documented, snapshot.config) == snapshot


def test_threads_are_kept_apart(run, documented):
    run.invoke(documented, {"foo": "other"}, thread("other"))
    assert run.get_state(documented, thread("other")).values == {"foo": "b", "bar": ["a", "b"]}
    assert len(run.history(documented, thread("other"))) == 4
    assert run.history(documented, thread("third")) == []


def test_a_number_as_thread_id_is_the_same_thread_as_its_text(run, saver):
    graph = line("a").compile(checkpointer=saver)
    run.invoke(graph, {}, {"configurable": {"thread_id": 5}})
    assert run.get_state(graph, thread("5")).values == {"log": ["a"]}


# -- get_state_history


def test_history_is_limited_to_the_newest(run, documented, config):
    whole = run.history(documented, config)
    assert run.history(documented, config, limit=2) == whole[:2]
    assert run.history(documented, config, limit=99) == whole
    assert run.history(documented, config, limit=0) == []


def test_history_before_a_checkpoint_leaves_it_out(run, documented, config):
    whole = run.history(documented, config)
    assert run.history(documented, config, before=whole[1].config) == whole[2:]


def test_history_is_filtered_by_metadata(run, documented, config):
    whole = run.history(documented, config)
    assert run.history(documented, config, filter={"source": "input"}) == whole[3:]
    assert run.history(documented, config, filter={"step": 1}) == [whole[1]]
    assert run.history(documented, config, filter={"source": "loop", "step": 0}) == [whole[2]]
    assert run.history(documented, config, filter={"source": "input", "step": 0}) == []
    assert run.history(documented, config, filter={"unknown": 1}) == []


def test_filter_before_and_limit_work_together(run, documented, config):
    whole = run.history(documented, config)
    found = run.history(
        documented, config, filter={"source": "loop"}, before=whole[0].config, limit=1
    )
    assert found == [whole[1]]


def test_metadata_of_the_call_is_saved_and_can_be_searched(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    run.invoke(graph, {}, {**config, "metadata": {"author": "ann"}})
    run.invoke(graph, {}, {**config, "metadata": {"author": "bob"}})
    found = run.history(graph, config, filter={"author": "ann"})
    assert [snapshot.metadata["step"] for snapshot in found] == [1, 0, -1]


def test_the_metadata_holds_nothing_of_the_config_that_was_not_asked_for(run, saver, durability):
    graph = line("a").compile(checkpointer=saver)
    secretive = {"configurable": {"thread_id": "t", "api_key": "canary", "user": "canary"}}
    run.invoke(graph, {}, secretive, durability=durability)
    run.update_state(graph, secretive, {"log": ["edit"]})
    assert "canary" not in repr(run.saver(saver, "list", thread("t")))


def test_the_run_id_is_saved_so_that_a_run_can_be_undone(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    first, second = uuid.uuid4(), uuid.uuid4()
    run.invoke(graph, {}, {**config, "run_id": first})
    run.invoke(graph, {}, {**config, "run_id": second})
    assert run.get_state(graph, config).metadata["run_id"] == str(second)
    run.saver(saver, "delete_for_runs", [str(second)])
    state = run.get_state(graph, config)
    assert state.metadata["run_id"] == str(first)
    assert state.values == {"log": ["a"]}


def test_the_head_is_the_newest_even_when_the_clock_goes_back(
    run, saver, config, durability, monkeypatch
):
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability=durability)
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3600 * 10**9)
    run.invoke(graph, {}, config, durability=durability)
    run.update_state(graph, config, {"log": ["edit"]})
    history = run.history(graph, config)
    assert history[0].values["log"] == ["a", "b", "a", "b", "edit"]
    assert [s.parent_config for s in history] == [*(s.config for s in history[1:]), None]


# -- finding a checkpoint, as the documents do


def test_a_checkpoint_is_found_by_next_by_step_and_by_source(run, documented, config):
    run.update_state(documented, config, {"foo": "edited"})
    history = run.history(documented, config)
    before_b = next(s for s in history if "node_b" in s.next)
    assert before_b.values == {"foo": "a", "bar": ["a"]}
    step_two = next(s for s in history if s.metadata["step"] == 2)
    assert step_two.values == {"foo": "b", "bar": ["a", "b"]}
    updates = [s for s in history if s.metadata["source"] == "update"]
    assert [s.values["foo"] for s in updates] == ["edited"]


def test_a_checkpoint_is_found_by_its_interrupts(run, saver, config, durability):
    def ask(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("proceed?")]}

    graph = single(ask).compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability=durability)
    history = run.history(graph, config)
    found = next(s for s in history if s.tasks and any(t.interrupts for t in s.tasks))
    assert [i.value for i in found.interrupts] == ["proceed?"]
    assert found.next == ("node",)
    result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
    assert result["log"] == ["yes"]


def test_a_failed_attempt_shows_its_error_in_the_tasks(run, saver, config, durability):
    def boom(state: Log) -> None:
        raise RuntimeError("the reason")

    graph = single(boom).compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {}, config, durability=durability)
    state = run.get_state(graph, config)
    assert state.next == ("node",)
    assert "the reason" in str(state.tasks[0].error)
    assert "the reason" in str(run.history(graph, config)[0].tasks[0].error)


# -- a thread must be named


@pytest.mark.parametrize("missing", [{"configurable": {}}, {}, None], ids=repr)
def test_a_call_without_a_thread_raises_what_the_documents_quote(run, saver, missing):
    graph = two_nodes().compile(checkpointer=saver)
    with pytest.raises(ValueError) as caught:
        run.invoke(graph, {"foo": ""}, missing)
    assert str(caught.value).startswith(NO_THREAD)


def test_reading_and_updating_without_a_thread_raise_the_same(run, saver):
    graph = two_nodes().compile(checkpointer=saver)
    nameless: dict[str, Any] = {"configurable": {}}
    for call in (
        lambda: run.get_state(graph, nameless),
        lambda: run.history(graph, nameless),
        lambda: run.update_state(graph, nameless, {"foo": ""}),
    ):
        with pytest.raises(MissingThreadError) as caught:
            call()
        assert str(caught.value).startswith(NO_THREAD)


def test_without_a_checkpointer_there_is_no_state_to_ask_for(run, config):
    graph = two_nodes().compile()
    for call in (
        lambda: run.get_state(graph, config),
        lambda: run.history(graph, config),
        lambda: run.update_state(graph, config, {"foo": ""}),
    ):
        with pytest.raises(ValueError, match="checkpointer"):
            call()


def test_an_unknown_checkpoint_id_is_refused_and_changes_nothing(run, documented, config):
    unknown = {
        "configurable": {"thread_id": "t", "checkpoint_id": "1ef663ba-28fe-6528-8002-5a559208592c"}
    }
    before = run.history(documented, config)
    for call in (
        lambda: run.get_state(documented, unknown),
        lambda: run.invoke(documented, None, unknown),
        lambda: run.invoke(documented, {"foo": ""}, unknown),
        lambda: run.update_state(documented, unknown, {"foo": ""}),
    ):
        with pytest.raises(CheckpointNotFoundError, match="1ef663ba"):
            call()
    assert run.history(documented, config) == before


# -- delete_thread


def test_a_deleted_thread_starts_anew(run, saver, config, durability):
    graph = line("a").compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability=durability)
    run.invoke(graph, {}, thread("other"), durability=durability)
    run.delete_thread(graph, "t")
    assert run.history(graph, config) == []
    assert run.get_state(graph, config).values == {}
    assert run.invoke(graph, {}, config, durability=durability)["log"] == ["a"]
    assert run.get_state(graph, thread("other")).values == {"log": ["a"]}


def test_deleting_a_thread_that_does_not_exist_is_no_error(run, saver):
    run.delete_thread(line("a").compile(checkpointer=saver), "never was")


# -- durability


class Observer:
    """A node that notes which steps the saver holds while it runs."""

    def __init__(self, saver: Any, config: Any) -> None:
        self.saver = saver
        self.config = config
        self.seen: list[list[int]] = []

    def __call__(self, state: Log) -> dict[str, Any]:
        self.seen.append([found.metadata["step"] for found in self.saver.list(self.config)])
        return {"log": [len(self.seen)]}


def observed(saver: Any, config: Any) -> tuple[Any, Observer]:
    observer = Observer(saver, config)
    builder = StateGraph(Log).add_sequence([("a", observer), ("b", observer), ("c", observer)])
    return builder.add_edge(START, "a").compile(checkpointer=saver), observer


def test_sync_saves_each_step_before_the_next_starts(run, saver, config):
    graph, observer = observed(saver, config)
    run.invoke(graph, {}, config, durability="sync")
    assert observer.seen == [[0, -1], [1, 0, -1], [2, 1, 0, -1]]


@pytest.fixture
def commits(saver, monkeypatch):
    """How many steps each transaction of the saver has stored."""
    counted: list[int] = []
    commit, acommit = saver.commit, saver.acommit

    def counting(steps):
        counted.append(len(steps))
        return commit(steps)

    async def counting_on_a_loop(steps):
        counted.append(len(steps))
        return await acommit(steps)

    monkeypatch.setattr(saver, "commit", counting)
    monkeypatch.setattr(saver, "acommit", counting_on_a_loop)
    return counted


def test_the_input_is_saved_together_with_the_step_that_passes_it_on(run, saver, config, commits):
    graph = two_nodes().compile(checkpointer=saver)
    run.invoke(graph, {"foo": ""}, config, durability="sync")
    assert commits == [2, 1, 1]


def test_the_input_is_saved_before_a_router_of_the_program_sees_it(run, saver, config, commits):
    builder = StateGraph(Log).add_node("a", appends("a"))
    seen: list[int] = []
    builder.add_conditional_edges(START, lambda _state: seen.append(len(commits)) or "a")
    run.invoke(builder.compile(checkpointer=saver), {"log": []}, config, durability="sync")
    assert seen == [1]


def test_the_input_is_saved_if_it_cannot_be_passed_on(run, saver, config):
    graph = two_nodes().compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError):
        run.invoke(graph, ["no", "dict"], config, durability="sync")
    assert steps(run.history(graph, config)) == [(-1, "input", ("__start__",))]


def test_whoever_streams_checkpoints_finds_each_one_saved(run, saver, config):
    graph = two_nodes().compile(checkpointer=saver)
    found = [
        run.get_state(graph, part["config"]).metadata["step"]
        for part in run.stream(
            graph, {"foo": ""}, config, stream_mode="checkpoints", durability="sync"
        )
    ]
    assert found == [-1, 0, 1, 2]


def test_async_saves_in_order_and_everything_before_the_call_returns(run, saver, config):
    graph, observer = observed(saver, config)
    run.invoke(graph, {}, config, durability="async")
    for at, seen in enumerate(observer.seen):
        assert seen == sorted(seen, reverse=True)
        assert set(seen) <= set(range(-1, at + 1))
    assert [s.metadata["step"] for s in run.history(graph, config)] == [3, 2, 1, 0, -1]


def test_exit_saves_one_checkpoint_when_the_run_ends(run, saver, config):
    graph, observer = observed(saver, config)
    run.invoke(graph, {}, config, durability="exit")
    assert observer.seen == [[], [], []]
    assert steps(run.history(graph, config)) == [(3, "loop", ())]


def test_a_second_run_under_exit_adds_one_checkpoint_to_the_first(run, saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    for _ in range(2):
        run.invoke(graph, {}, config, durability="exit")
    history = run.history(graph, config)
    assert steps(history) == [(6, "loop", ()), (2, "loop", ())]
    assert history[0].parent_config == history[1].config
    assert history[1].parent_config is None
    assert history[0].values == {"log": ["a", "b", "a", "b"]}


def test_exit_saves_when_the_run_stops_at_an_interrupt(run, saver, config):
    graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_before=["c"])
    run.invoke(graph, {}, config, durability="exit")
    assert steps(run.history(graph, config)) == [(2, "loop", ("c",))]


def test_exit_saves_when_the_run_fails(run, saver, config):
    def boom(state: Log) -> None:
        raise RuntimeError("boom")

    builder = StateGraph(Log).add_sequence([("a", appends("a")), boom]).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {}, config, durability="exit")
    assert steps(run.history(graph, config)) == [(1, "loop", ("boom",))]
    assert run.get_state(graph, config).values == {"log": ["a"]}


def test_durability_is_chosen_call_by_call(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    for durability in ("exit", "sync", "async"):
        run.invoke(graph, {}, config, durability=durability)
    assert [step for step, _, _ in steps(run.history(graph, config))] == [7, 6, 5, 4, 3, 2, 1]


def test_stream_takes_a_durability_too(run, saver, config):
    run.stream(line("a").compile(checkpointer=saver), {}, config, durability="exit")
    assert len(run.saver(saver, "list", config)) == 1


def test_an_unknown_durability_is_refused(run, saver, config):
    with pytest.raises(ValueError, match="someday"):
        run.invoke(line("a").compile(checkpointer=saver), {}, config, durability="someday")


def test_checkpoint_during_is_deprecated_and_means_exit_or_async(run, saver):
    graph = line("a", "b").compile(checkpointer=saver)
    with pytest.warns(DeprecationWarning, match="durability"):
        run.invoke(graph, {}, thread("without"), checkpoint_during=False)
    with pytest.warns(DeprecationWarning, match="durability"):
        run.invoke(graph, {}, thread("with"), checkpoint_during=True)
    assert len(run.history(graph, thread("without"))) == 1
    assert len(run.history(graph, thread("with"))) == 4


def test_checkpoint_during_and_durability_together_are_refused(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    with (
        pytest.warns(DeprecationWarning, match="durability"),
        pytest.raises(ValueError, match="durability"),
    ):
        run.invoke(graph, {}, config, checkpoint_during=True, durability="sync")


def test_a_value_that_cannot_be_stored_fails_the_run_and_not_the_thread(
    run, saver, config, durability
):
    """The node, the path to the value, and the head as it was."""
    builder = StateGraph(Log).add_node("culprit", lambda state: {"log": [{"deep": [object()]}]})
    graph = builder.add_edge(START, "culprit").compile(checkpointer=saver)
    with pytest.raises(TypeError) as caught:
        run.invoke(graph, {}, config, durability=durability)
    assert "culprit" in str(caught.value)
    assert "deep" in str(caught.value)
    state = run.get_state(graph, config)
    assert state.values in ({}, {"log": []})


def test_values_are_saved_as_they_were_when_the_step_ended(run, saver, config, durability):
    shared: list[str] = ["early"]

    class Holder(Doc):
        held: list[str]

    def put(state: Holder) -> dict[str, Any]:
        return {"held": shared}

    def mutate(state: Holder) -> None:
        shared.append("late")
        raise RuntimeError("stop here")

    builder = StateGraph(Holder).add_sequence([put, mutate]).add_edge(START, "put")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {"foo": ""}, config, durability=durability)
    if durability != "exit":
        assert run.get_state(graph, config).values["held"] == ["early"]
    shared.append("later")
    assert "later" not in run.get_state(graph, config).values["held"]


# -- a failing saver


def failing(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every way of storing a checkpoint fail from now on."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    for method in ("put", "aput", "commit", "acommit"):
        if hasattr(saver, method):
            monkeypatch.setattr(saver, method, fail)


def test_a_failing_saver_fails_the_run_with_a_typed_error(
    run, saver, config, durability, monkeypatch
):
    graph = line("a", "b").compile(checkpointer=saver)
    failing(saver, monkeypatch)
    with pytest.raises(SaverError) as caught:
        run.invoke(graph, {}, config, durability=durability)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_fan_out_under_every_durability_ends_in_the_same_state(run, saver, config, durability):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(4)])
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability=durability)
    assert run.get_state(graph, config).values == {"log": [0, 1, 2, 3]}
    assert run.get_state(graph, config).next == ()
