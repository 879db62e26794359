"""When steps are saved: before the next one starts, along the way, or at the end."""

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import Doc, Log, appends, line, steps, thread, two_nodes
from milepost.channels import DeltaChannel
from milepost.errors import InvalidUpdateError, SaverError
from milepost.graph import START, StateGraph
from milepost.runtime import Runtime
from milepost.types import Command, Send


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
    if not saver.instant:  # its `acommit` calls `commit`
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


def test_a_node_under_exit_is_told_the_task_id_that_is_stored(run, saver, config):
    told: list[str] = []

    def boom(state: Log, runtime: Runtime) -> None:
        told.append(runtime.execution_info.task_id)
        raise RuntimeError("boom")

    builder = StateGraph(Log).add_sequence([("a", appends("a")), boom]).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {}, config, durability="exit")
    assert [task.id for task in run.get_state(graph, config).tasks] == told


@pytest.mark.parametrize("is_new", [True, False])
def test_exit_saves_the_steps_before_one_that_writes_a_plain_key_twice(run, saver, config, is_new):
    builder = StateGraph(Doc).add_node("a", lambda _state: {"foo": "a", "bar": []})
    builder.add_edge(START, "a").add_edge("a", "b")
    twice = Command(update=[("bar", ["x"]), ("foo", "1"), ("foo", "2")])
    builder.add_node("b", lambda _state: twice)
    graph = builder.compile(checkpointer=saver)
    if not is_new:
        run.update_state(graph, config, {"foo": ""}, as_node=START)
    with pytest.raises(InvalidUpdateError, match="foo"):
        run.invoke(graph, {"foo": ""}, config, durability="exit")
    state = run.get_state(graph, config)
    assert state.values == {"foo": "a", "bar": []}
    assert state.next == ("b",)


def test_durability_is_chosen_call_by_call(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    for durability in ("exit", "sync", "async"):
        run.invoke(graph, {}, config, durability=durability)
    assert [step for step, _, _ in steps(run.history(graph, config))] == [7, 6, 5, 4, 3, 2, 1]


def test_stream_takes_a_durability_too(run, saver, config):
    run.stream(line("a").compile(checkpointer=saver), {}, config, durability="exit")
    assert len(run.saver(saver, "list", config)) == 1


def test_an_unknown_durability_is_refused(run, saver, config, strictly):
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


def failing(saver: Any, monkeypatch: pytest.MonkeyPatch, *methods: str) -> None:
    """Make these ways of storing a checkpoint fail from now on."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    for method in methods:
        monkeypatch.setattr(saver, method, fail)


def test_a_failing_saver_fails_the_run_with_a_typed_error(
    run, saver, config, durability, monkeypatch
):
    graph = line("a", "b").compile(checkpointer=saver)
    failing(saver, monkeypatch, "commit", "acommit")
    with pytest.raises(SaverError) as caught:
        run.invoke(graph, {}, config, durability=durability)
    assert isinstance(caught.value.__cause__, OSError)


def test_what_a_program_s_own_put_raises_is_raised_with_a_note(
    run, saver, config, durability, monkeypatch
):
    graph = line("a", "b").compile(checkpointer=saver)
    failing(saver, monkeypatch, "put", "aput")
    with pytest.raises(OSError, match="disk full") as caught:
        run.invoke(graph, {}, config, durability=durability)
    assert any("could not save a step of thread" in note for note in caught.value.__notes__)


def test_a_fan_out_under_every_durability_ends_in_the_same_state(run, saver, config, durability):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(4)])
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability=durability)
    assert run.get_state(graph, config).values == {"log": [0, 1, 2, 3]}
    assert run.get_state(graph, config).next == ()


class Twins(TypedDict):
    """Two keys that are to be the same: one stored by what was written to it, one whole."""

    delta: Annotated[list[str], DeltaChannel(lambda old, new: sum(new, old))]
    plain: Annotated[list[str], operator.add]


def twice(word: str) -> dict[str, list[str]]:
    return {"delta": [word], "plain": [word]}


class TestADeltaChannelThatARunLeavesAlone:
    """What was written where the run began, and did not lead to it, is not taken over."""

    def test_has_after_a_replay_what_it_had_at_its_checkpoint(self, run, saver, config, durability):
        writes = [True]
        builder = StateGraph(Twins).add_sequence(
            [(name, lambda _, name=name: twice(name) if writes else None) for name in "ab"]
        )
        graph = builder.add_edge(START, "a").compile(checkpointer=saver)
        run.invoke(graph, twice("in"), config, durability="sync")
        states = run.history(graph, config)
        assert len(states) == 4
        writes.clear()
        for old in states[1:3]:
            run.invoke(graph, None, old.config, durability=durability)
            assert run.get_state(graph, config).values == old.values
            assert old.values["delta"] == old.values["plain"]

    @pytest.mark.filterwarnings("ignore:Thread .* waits in a step in which")
    def test_has_after_a_step_that_was_given_up_what_it_had_before(
        self, run, saver, config, durability
    ):
        fails = [True]

        def fail(_: Twins) -> None:
            if fails:
                raise ValueError("no")

        builder = StateGraph(Twins).add_node("fail", fail)
        builder.add_node("writes", lambda _: twice("lost") if fails else None)
        builder.add_edge(START, "fail").add_edge(START, "writes")
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(ValueError, match="no"):
            run.invoke(graph, twice("in"), config, durability="sync")
        fails.clear()
        run.invoke(graph, {"plain": []}, config, durability=durability)
        assert run.get_state(graph, config).values == twice("in")
