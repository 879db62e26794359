"""Threads and their checkpoints: what is saved, and how it is found again."""

import datetime
import time
import uuid
from typing import Any

import pytest

from graphs import Log, appends, id_of, line, single, steps, thread, two_nodes
from milepost.errors import CheckpointNotFoundError, MissingThreadError
from milepost.graph import START, StateGraph
from milepost.types import Command, PregelTask, StateSnapshot, interrupt

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
    named = [snapshot.config["configurable"] for snapshot in run.history(documented, config)]
    ids = [one["checkpoint_id"] for one in named]
    assert len(set(ids)) == 4
    assert named == [{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id} for id in ids]


def test_ids_and_times_of_creation_grow(run, documented, config):
    history = run.history(documented, config)
    ids = [id_of(snapshot.config) for snapshot in history]
    assert len(set(ids)) == 4
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
    history = run.history(documented, config)
    assert len(history) == 4
    assert [run.get_state(documented, snapshot.config) for snapshot in history] == history


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


def test_the_metadata_holds_no_secrets_of_the_config(run, saver, durability):
    graph = line("a").compile(checkpointer=saver)
    given = {"api_key": "canary", "Auth-Header": "canary", "__x": "canary", "user": ["canary"]}
    secretive = {"configurable": {"thread_id": "t", **given}}
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


@pytest.mark.usefixtures("strictly")
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


def test_deleting_a_thread_that_does_not_exist_is_no_error(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    run.delete_thread(graph, "never was")
    assert run.get_state(graph, config).values == {"log": ["a"]}
