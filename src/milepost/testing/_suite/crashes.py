"""Crashes: whatever is lost in the middle of a run, the thread can be taken up again.

A graph is run again and again with a storage that is gone from the first save on, from the second
on, and so forth until none is left; and each time it is resumed on the sound storage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from milepost.errors import MilepostError
from milepost.testing._kit.clauses import KitEffects, call, clause, fail, holds, same
from milepost.testing._kit.faults import (
    SAVES,
    Fault,
    FaultySaver,
    InjectedFault,
    delay,
    fail_after,
    fail_before,
)
from milepost.testing._kit.saver_fixture import SaverFixture
from milepost.testing._suite.graphs import STORY, story
from milepost.types import Command

_NODES = [name for name in STORY if name not in ("in", "yes")]
_MANY = 60


class _StoryRun:
    """One thread on which the story runs."""

    def __init__(self, fixture: SaverFixture, name: str, durability: str) -> None:
        self.saver = fixture.saver
        self.config = fixture.config(name)
        self.durability = durability
        self.ran: list[str] = []

    def finish(self, saver: Any) -> KitEffects[dict[str, Any]]:
        """Start the story or resume the thread, until the story has ended."""
        graph = story(self.ran).compile(checkpointer=saver)
        given: Any
        for _ in range(_MANY):
            state = yield call(graph, "get_state", self.config)
            if state.created_at is None:
                given = {"log": ["in"]}
            elif state.interrupts:
                given = Command(resume="yes")
            elif state.tasks:  # not `next`: a task whose writes are stored has still to be applied
                given = None
            else:
                values: dict[str, Any] = state.values
                return values
            yield call(graph, "invoke", given, self.config, durability=self.durability)
        fail(f"the run does not come to its end: {state.tasks} are left")


def _undisturbed(fixture: SaverFixture, durability: str) -> KitEffects[None]:
    story_run = _StoryRun(fixture, "undisturbed", durability)
    same(
        (yield from story_run.finish(fixture.saver)),
        {"log": list(STORY)},
        "the state without a fault",
    )
    same(sorted(story_run.ran), sorted(_NODES), "the nodes that ran without a fault")


def _crash_everywhere(
    fixture: SaverFixture, durability: str, fault: Callable[..., Fault], *, once: bool
) -> KitEffects[None]:
    """Lose the storage at every save in turn, and resume.

    With `once`, no node may run again whose writes were acknowledged.
    """
    yield from _undisturbed(fixture, durability)
    # Tasks that end together may be saved together, so the number of saves is not fixed.
    for nth in range(1, _MANY):
        story_run = _StoryRun(fixture, f"crash-{nth}", durability)
        faulty = FaultySaver(fixture.saver, fault(*SAVES, nth=nth, lasting=True))
        what = f"with a fault at save {nth}"
        try:
            yield from story_run.finish(faulty)
        except (MilepostError, InjectedFault):
            pass  # a run raises what a saver of the contract's five methods raises
        else:
            holds(not faulty.struck, f"{what} the run did not fail")
            holds(nth > 1, "the run saves nothing")
            return
        values = yield from story_run.finish(fixture.saver)
        same(values, {"log": list(STORY)}, f"{what}, the state after the resume")
        if once:
            twice = [name for name in _acknowledged(faulty) if story_run.ran.count(name) != 1]
            same(twice, [], f"{what}, nodes that ran again although their writes were stored")
    fail(f"the run saves more than {_MANY} times")


def _acknowledged(saver: FaultySaver) -> Sequence[str]:
    """The nodes of which the run knew that what they wrote is stored."""
    named = [value for _, channel, value in saver.acknowledged() if channel == "log"]
    return [name for name in _NODES if any(name in value for value in named)]


@clause("crashes")
def a_run_survives_the_loss_of_a_save(fixture: SaverFixture) -> KitEffects[None]:
    """`sync`: if a save never happens, the resume ends the same and repeats nothing stored."""
    yield from _crash_everywhere(fixture, "sync", fail_before, once=True)


@clause("crashes")
def a_run_survives_the_loss_of_an_acknowledgement(fixture: SaverFixture) -> KitEffects[None]:
    """`sync`: if a save happens but looks as if it failed, the resume ends the same."""
    yield from _crash_everywhere(fixture, "sync", fail_after, once=True)


@clause("crashes")
def a_run_in_the_background_survives_the_loss_of_a_save(fixture: SaverFixture) -> KitEffects[None]:
    """`async`: what is stored is a beginning of the run, and the resume ends the same."""
    yield from _crash_everywhere(fixture, "async", fail_before, once=False)


@clause("crashes")
def a_run_saved_at_exit_survives_the_loss_of_it(fixture: SaverFixture) -> KitEffects[None]:
    """`exit`: the run is stored as a whole or not at all, and can be repeated."""
    yield from _crash_everywhere(fixture, "exit", fail_before, once=False)


@clause("crashes")
def a_failed_read_changes_nothing(fixture: SaverFixture) -> KitEffects[None]:
    """If the thread cannot be read, no node runs and the thread stays as it was."""
    story_run = _StoryRun(fixture, "t", "sync")
    graph = story(story_run.ran).compile(checkpointer=fixture.saver)
    yield call(graph, "invoke", {"log": ["in"]}, story_run.config, durability="sync")
    before, ran = (yield fixture.call("list", story_run.config)), list(story_run.ran)
    broken = story(story_run.ran).compile(
        checkpointer=FaultySaver(fixture.saver, fail_before("get_tuple", nth=None))
    )
    try:
        yield call(broken, "invoke", Command(resume="yes"), story_run.config, durability="sync")
    except (MilepostError, OSError):
        pass
    else:
        fail("the run did not fail")
    same(story_run.ran, ran, "the nodes that ran")
    same((yield fixture.call("list", story_run.config)), before, "the thread")
    same((yield from story_run.finish(fixture.saver)), {"log": list(STORY)}, "the state in the end")


@clause("crashes")
def a_slow_saver_changes_nothing(fixture: SaverFixture) -> KitEffects[None]:
    """A saver that takes its time gives the same state, saved in the background or not."""
    for durability in ("sync", "async"):
        story_run = _StoryRun(fixture, durability, durability)
        slow = FaultySaver(fixture.saver, delay(*SAVES, seconds=0.002))
        same(
            (yield from story_run.finish(slow)),
            {"log": list(STORY)},
            f"the state under {durability}",
        )
        same(sorted(story_run.ran), sorted(_NODES), "the nodes that ran")
