"""What was stored is there when the saver is opened again."""

from __future__ import annotations

from milepost.testing._kit.clauses import KitEffects, Reopen, Trait, call, clause, same
from milepost.testing._kit.saver_fixture import SaverFixture
from milepost.testing._suite.graphs import STORY, story
from milepost.types import Command


@clause("persistence", Trait.PERSISTENCE)
def what_was_stored_is_there_after_reopening(fixture: SaverFixture) -> KitEffects[None]:
    """Checkpoints, parents, metadata and writes are the same after closing and opening again."""
    threads = [fixture.thread(), fixture.thread(ns="child:1")]
    for thread in threads:
        for n in range(3):
            yield from thread.put(n, key=n, still=[0])
            yield from thread.write([("key", n)], "task", "~1")
    before = []
    for thread in threads:
        before.append((yield from thread.checkpoints()))
    saver = yield Reopen()
    for thread, wanted in zip(threads, before, strict=True):
        thread.saver = saver
        same((yield from thread.checkpoints()), wanted, f"the list of namespace '{thread.ns}'")


@clause("persistence", Trait.PERSISTENCE)
def a_deleted_thread_stays_deleted_after_reopening(fixture: SaverFixture) -> KitEffects[None]:
    """Reopening brings nothing back."""
    thread = yield from fixture.started(key=1)
    yield fixture.call("delete_thread", thread.thread_id)
    thread.saver = yield Reopen()
    same((yield from thread.find()), None, "the latest checkpoint")


@clause("persistence", Trait.PERSISTENCE)
def a_paused_run_goes_on_after_reopening(fixture: SaverFixture) -> KitEffects[None]:
    """A graph that waits for an answer gets it from another program."""
    ran: list[str] = []
    builder = story(ran)
    graph = builder.compile(checkpointer=fixture.saver)
    yield call(graph, "invoke", {"log": ["in"]}, fixture.config(), durability="sync")
    graph = builder.compile(checkpointer=(yield Reopen()))
    result = yield call(graph, "invoke", Command(resume="yes"), fixture.config(), durability="sync")
    same(result["log"], list(STORY), "the log")
    wanted = sorted(name for name in STORY if name not in ("in", "yes"))
    same(sorted(ran), wanted, "the nodes that ran")
