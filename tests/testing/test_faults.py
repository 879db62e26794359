"""FaultySaver: a saver that fails when a test wants it to, and is the same otherwise."""

from __future__ import annotations

import time
from typing import Any

import pytest
from mutants import Five

from graphs import Log, appends, line, thread
from milepost._engine.drivers.effects import is_async_only, is_sync_only
from milepost.checkpoint._contract.step_saver import StepSaver
from milepost.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import SaverError
from milepost.graph import START, StateGraph
from milepost.testing import FaultySaver, InjectedFault, check_saver, delay, fail_after, fail_before


def put(run: Any, saver: Any, thread_id: str = "t") -> Any:
    return run.saver(saver, "put", thread(thread_id), empty_checkpoint(), {"step": 0}, {})


def test_a_faulty_saver_without_faults_keeps_every_clause_that_the_saver_keeps():
    report = check_saver(lambda: FaultySaver(InMemorySaver()))
    assert report.failed == ()
    assert len(report.passed) == len(check_saver(InMemorySaver).passed)


def test_a_call_that_fails_before_has_done_nothing(run):
    saver = FaultySaver(InMemorySaver(), fail_before("put"))
    with pytest.raises(InjectedFault, match="put was made to fail before"):
        put(run, saver)
    assert run.saver(saver, "get_tuple", thread("t")) is None
    put(run, saver)
    assert run.saver(saver, "get_tuple", thread("t")) is not None


def test_a_call_that_fails_after_has_been_carried_out(run):
    saver = FaultySaver(InMemorySaver(), fail_after("put"))
    with pytest.raises(InjectedFault, match="carried out"):
        put(run, saver)
    assert run.saver(saver, "get_tuple", thread("t")) is not None
    assert saver.struck


def test_a_fault_strikes_the_nth_call_of_its_methods(run):
    saver = FaultySaver(InMemorySaver(), fail_before("put", "get_tuple", nth=3))
    put(run, saver)
    run.saver(saver, "list", thread("t"))
    put(run, saver)
    with pytest.raises(InjectedFault):
        run.saver(saver, "get_tuple", thread("t"))
    run.saver(saver, "get_tuple", thread("t"))


def test_a_fault_for_every_call_of_every_method(run):
    saver = FaultySaver(InMemorySaver(), fail_before(nth=None))
    for _ in range(2):
        with pytest.raises(InjectedFault):
            run.saver(saver, "list", thread("t"))
        with pytest.raises(InjectedFault):
            run.saver(saver, "delete_thread", "t")


def test_a_lasting_fault_makes_all_later_calls_fail(run):
    saver = FaultySaver(InMemorySaver(), fail_before("put", nth=2, lasting=True))
    put(run, saver)
    with pytest.raises(InjectedFault):
        put(run, saver)
    with pytest.raises(InjectedFault, match="gone"):
        run.saver(saver, "get_tuple", thread("t"))


def test_the_error_may_be_of_any_kind(run):
    saver = FaultySaver(InMemorySaver(), fail_before("put", error=TimeoutError))
    with pytest.raises(TimeoutError):
        put(run, saver)


def test_a_delayed_call_takes_its_time_and_succeeds(run):
    saver = FaultySaver(InMemorySaver(), delay("put", seconds=0.02))
    began = time.monotonic()
    put(run, saver)
    assert time.monotonic() - began >= 0.02
    assert run.saver(saver, "get_tuple", thread("t")) is not None


def test_a_faulty_saver_has_the_colours_and_capabilities_of_the_one_that_it_wraps():
    class OnlyAsync(BaseCheckpointSaver[int]):
        async def aput(self, *args: Any) -> Any: ...

    assert isinstance(FaultySaver(InMemorySaver()), StepSaver)
    assert not isinstance(FaultySaver(Five()), StepSaver)
    assert is_sync_only(FaultySaver(Five()))
    assert is_async_only(FaultySaver(OnlyAsync()))
    with pytest.raises(NotImplementedError):
        FaultySaver(Five()).copy_thread("t", "u")
    assert FaultySaver(InMemorySaver()).storage == {}
    with pytest.raises(AttributeError):
        FaultySaver(InMemorySaver()).no_such_thing


@pytest.mark.parametrize("make", [InMemorySaver, Five])
def test_a_faulty_saver_tells_calls_and_what_was_acknowledged(run, config, make):
    saver = FaultySaver(make(), fail_before("put_writes", "commit", nth=3, lasting=True))
    graph = line("a", "b", "c", "d").compile(checkpointer=saver)
    with pytest.raises((SaverError, InjectedFault)) as caught:
        run.invoke(graph, {}, config, durability="sync")
    assert InjectedFault in (type(caught.value), type(caught.value.__cause__))
    stored = [value for _, channel, value in saver.acknowledged() if channel == "log"]
    assert stored == [["a"]]
    saves = [call for call in saver.calls if call.method in ("put_writes", "commit")]
    assert [call.returned for call in saves[:3]] == [True, True, False]


def test_a_task_whose_writes_were_stored_does_not_run_again(run, config):
    ran: list[str] = []
    sound = Five()
    saver = FaultySaver(sound, fail_before("put_writes", nth=3, lasting=True))

    def graph(saver: Any) -> Any:
        builder = StateGraph(Log)
        for name in ("a", "b"):
            builder.add_node(name, appends(name, ran)).add_edge(START, name)
        return builder.compile(checkpointer=saver)

    with pytest.raises(InjectedFault):
        run.invoke(graph(saver), {}, config, durability="sync")
    [(_, _, [stored])] = [write for write in saver.acknowledged() if write[1] == "log"]
    assert run.invoke(graph(sound), None, config)["log"] == ["a", "b"]
    assert ran.count(stored) == 1
