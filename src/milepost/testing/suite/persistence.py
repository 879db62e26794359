"""What was stored is there when the saver is opened again."""

from __future__ import annotations

from milepost.testing.clauses import Trait, clause, same
from milepost.testing.desk import Desk
from milepost.testing.effects import Program, Reopen, call
from milepost.testing.suite.graphs import STORY, story
from milepost.types import Command


@clause("persistence", Trait.PERSISTENCE)
def what_was_stored_is_there_after_reopening(desk: Desk) -> Program[None]:
    """Checkpoints, parents, metadata and writes are the same after closing and opening again."""
    trails = [desk.trail(), desk.trail(ns="child:1")]
    for trail in trails:
        for n in range(3):
            yield from trail.put(n, key=n, still=[0])
            yield from trail.write([("key", n)], "task", "~1")
    before = []
    for trail in trails:
        before.append((yield from trail.list()))
    saver = yield Reopen()
    for trail, wanted in zip(trails, before, strict=True):
        trail.saver = saver
        same((yield from trail.list()), wanted, f"the list of namespace '{trail.ns}'")


@clause("persistence", Trait.PERSISTENCE)
def a_deleted_thread_stays_deleted_after_reopening(desk: Desk) -> Program[None]:
    """Reopening brings nothing back."""
    trail = desk.trail()
    yield from trail.put(key=1)
    yield call(desk.saver, "delete_thread", trail.thread_id)
    trail.saver = yield Reopen()
    same((yield from trail.look()), None, "the latest checkpoint")


@clause("persistence", Trait.PERSISTENCE)
def a_paused_run_goes_on_after_reopening(desk: Desk) -> Program[None]:
    """A graph that waits for an answer gets it from another program."""
    ran: list[str] = []
    builder = story(ran)
    graph = builder.compile(checkpointer=desk.saver)
    yield call(graph, "invoke", {"log": ["in"]}, desk.config(), durability="sync")
    graph = builder.compile(checkpointer=(yield Reopen()))
    result = yield call(graph, "invoke", Command(resume="yes"), desk.config(), durability="sync")
    same(result["log"], list(STORY), "the log")
    wanted = sorted(name for name in STORY if name not in ("in", "yes"))
    same(sorted(ran), wanted, "the nodes that ran")
