"""StepSaver: a step is stored in one go, by the run that owns the thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from milepost.checkpoint._contract.step_saver import (
    Fence,
    NewCheckpoint,
    StepCommit,
    StepSaver,
    TaskWrites,
)
from milepost.errors import SerdeError, ThreadConflict
from milepost.testing._kit.clauses import (
    KitEffects,
    Together,
    Trait,
    caught,
    clause,
    fail,
    holds,
    same,
)
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, id_in, values_of


def prepared(
    thread: ThreadBuilder,
    fence: Fence,
    step: int = 0,
    writes: Sequence[tuple[str, Any]] = (),
    **new: Any,
) -> Any:
    """The next step of a thread: a task's writes and a checkpoint, as the saver prepares it."""
    parent = id_in(thread.head)
    tasks = [TaskWrites("task", "~1", "node", writes)] if writes else []
    made = None
    if new:
        checkpoint, _changed = thread.next(**new)
        values = checkpoint["channel_values"]
        checkpoint["channel_values"] = {}
        made = NewCheckpoint.of(
            checkpoint, {"source": "loop", "step": step, "parents": {}}, new, values.copy
        )
    commit = StepCommit(thread.thread_id, thread.ns, parent, tasks, made, fence)
    return cast("StepSaver[Any]", thread.saver).prepare(commit)


def committed(fixture: SaverFixture, *steps: Any) -> KitEffects[list[type[Exception] | None]]:
    """Commit steps; for each, what was wrong with it."""
    outcome = yield fixture.call("commit", list(steps))
    return [None if error is None else type(error) for error in outcome]


@clause("steps", Trait.STEPS, Trait.HISTORY)
def a_step_is_stored_in_one_go(fixture: SaverFixture) -> KitEffects[None]:
    """One commit stores a task's writes at the parent and the checkpoint that they lead to."""
    thread, fence = fixture.thread(), Fence(None)
    first = prepared(thread, fence, 0, still=[1], key="a")
    second = prepared(thread, fence, 1, [("key", "b")], key="b")
    same((yield from committed(fixture, first)), [None], "the outcome")
    same((yield from committed(fixture, second)), [None], "the outcome")
    found = yield from thread.get()
    same(values_of(found), {"still": [1], "key": "b"}, "the values")
    same((found.metadata["step"], id_in(found.parent_config)), (1, thread.ids[0]), "step, parent")
    writes = yield from thread.pending(thread.at(thread.ids[0]))
    same(writes, [("task", "key", "b")], "the writes at the parent")


@clause("steps", Trait.STEPS)
def prepare_stores_nothing(fixture: SaverFixture) -> KitEffects[None]:
    """What was only prepared cannot be read, and the thread is still free."""
    thread = fixture.thread()
    prepared(thread, Fence(None), key="a")
    same((yield from fixture.thread().find()), None, "the thread")
    other = fixture.thread()
    same((yield from committed(fixture, prepared(other, Fence(None), key=1))), [None], "a commit")


@clause("steps", Trait.STEPS)
def prepare_takes_a_copy(fixture: SaverFixture) -> KitEffects[None]:
    """Changing a value between `prepare` and `commit` does not change what is stored."""
    thread, value, written = fixture.thread(), {"items": [1]}, [1]
    fence = Fence(None)
    first = prepared(thread, fence, 0, key=value)
    later = prepared(thread, fence, 1, [("key", written)])
    value["items"].append(2)
    written.append(2)
    same((yield from committed(fixture, first, later)), [None, None], "the outcome")
    found = yield from thread.get()
    same(values_of(found), {"key": {"items": [1]}}, "the values")
    same(found.pending_writes, [("task", "key", [1])], "the writes")


@clause("steps", Trait.STEPS)
def what_cannot_be_stored_is_refused_by_prepare(fixture: SaverFixture) -> KitEffects[None]:
    """A value that cannot be read back is refused before anything is stored."""
    for given in ({"key": object()}, {"writes": [("key", object())]}):
        thread = fixture.thread()
        try:
            prepared(thread, Fence(None), **given)
        except SerdeError:
            pass
        else:
            fail(f"prepare accepted {given}")
        same((yield from thread.find()), None, "the thread")


@clause("steps", Trait.STEPS, Trait.HISTORY)
def a_batch_is_stored_in_order(fixture: SaverFixture) -> KitEffects[None]:
    """Several steps in one commit are stored as if they came one by one."""
    thread, fence = fixture.thread(), Fence(None)
    batch = [prepared(thread, fence, n, key=n) for n in range(4)]
    same((yield from committed(fixture, *batch)), [None] * 4, "the outcome")
    same((yield from thread.steps()), [3, 2, 1, 0], "the steps")
    for n, id in enumerate(thread.ids):
        found = yield from thread.get(thread.at(id))
        same(values_of(found), {"key": n}, "the values")


@clause("steps", Trait.STEPS)
def a_bad_step_fails_alone(fixture: SaverFixture) -> KitEffects[None]:
    """A stale step in a batch is refused; those beside it are stored."""
    taken, fine, more = fixture.thread("taken"), fixture.thread("fine"), fixture.thread("more")
    yield from committed(fixture, prepared(taken, Fence(None), key="owner"))
    batch = [
        prepared(fine, Fence(None), key=1),
        prepared(fixture.thread("taken"), Fence(None), key="stale"),
        prepared(more, Fence(None), key=2),
    ]
    outcome = yield from committed(fixture, *batch)
    same(outcome, [None, ThreadConflict, None], "the outcome")
    for thread, wanted in ((fine, 1), (more, 2), (taken, "owner")):
        same(values_of((yield from thread.get())), {"key": wanted}, f"thread {thread.thread_id}")


@clause("steps", Trait.STEPS)
def the_first_commit_compares_the_head(fixture: SaverFixture) -> KitEffects[None]:
    """A run whose thread has moved on since it was loaded conflicts and stores nothing."""
    thread = fixture.thread()
    yield from committed(fixture, prepared(thread, Fence(None), 0, key=0))
    loaded = thread.ids[-1]
    late = thread.branch()
    yield from committed(fixture, prepared(thread, Fence(loaded), 1, key=1))
    stale = prepared(late, Fence(loaded), 2, [("key", "late")], key="late")
    same((yield from committed(fixture, stale)), [ThreadConflict], "the outcome")
    found = yield from thread.get()
    same(values_of(found), {"key": 1}, "the values")
    same((yield from thread.find(late.head)), None, "the checkpoint of the late run")


@clause("steps", Trait.STEPS)
def a_later_commit_needs_the_token(fixture: SaverFixture) -> KitEffects[None]:
    """When another run has taken the thread, the earlier one conflicts, whatever it commits."""
    thread, first = fixture.thread(), Fence(None)
    yield from committed(fixture, prepared(thread, first, 0, key=0))
    late = thread.branch()
    yield from committed(fixture, prepared(thread, Fence(thread.ids[-1]), 1, key=1))
    for stale in (prepared(late, first, 2, key=2), prepared(late, first, 2, [("key", 2)])):
        same((yield from committed(fixture, stale)), [ThreadConflict], "the outcome")
    found = yield from thread.get()
    same((values_of(found), found.pending_writes), ({"key": 1}, []), "values and writes")


@clause("steps", Trait.STEPS)
def writes_alone_take_the_thread(fixture: SaverFixture) -> KitEffects[None]:
    """A commit without a checkpoint claims the thread too."""
    thread, first = fixture.thread(), Fence(None)
    yield from committed(fixture, prepared(thread, first, 0, key=0))
    yield from committed(fixture, prepared(thread, Fence(thread.ids[-1]), 1, [("key", 1)]))
    outcome = yield from committed(fixture, prepared(thread.branch(), first, 1, key=1))
    same(outcome, [ThreadConflict], "the outcome of the run before")


@clause("steps", Trait.STEPS, Trait.HISTORY)
def a_fork_on_purpose_takes_the_thread(fixture: SaverFixture) -> KitEffects[None]:
    """A run that starts from an older checkpoint on purpose need not match the head."""
    thread = fixture.thread()
    yield from committed(fixture, prepared(thread, Fence(None), 0, key=0))
    fork = thread.branch()
    yield from committed(fixture, prepared(thread, Fence(thread.ids[-1]), 1, key=1))
    fork.ids = list(thread.ids)
    fence = Fence(id_in(fork.head), forced=True)
    same(
        (yield from committed(fixture, prepared(fork, fence, 1, key="fork"))), [None], "the outcome"
    )
    same(values_of((yield from thread.get())), {"key": "fork"}, "the values")


@clause("steps", Trait.STEPS)
def a_deleted_thread_refuses_its_old_run(fixture: SaverFixture) -> KitEffects[None]:
    """A run whose thread was deleted conflicts, and the thread stays deleted."""
    thread, fence = fixture.thread(), Fence(None)
    yield from committed(fixture, prepared(thread, fence, 0, key=0))
    yield fixture.call("delete_thread", thread.thread_id)
    same((yield from committed(fixture, prepared(thread, fence, 1, key=1))), [ThreadConflict], "it")
    same((yield from thread.find()), None, "the thread")


@clause("steps", Trait.STEPS)
def the_head_is_the_latest_of_the_root(fixture: SaverFixture) -> KitEffects[None]:
    """`head` gives the id of the root graph's latest checkpoint; inner graphs do not move it."""
    thread, child, fence = fixture.thread(), fixture.thread(ns="child:1"), Fence(None)
    same((yield fixture.call("head", thread.thread_id)), None, "an unknown thread")
    for _ in range(2):
        same((yield from committed(fixture, prepared(thread, fence, key=1))), [None], "the outcome")
        same((yield from committed(fixture, prepared(child, fence, key=1))), [None], "the outcome")
        same((yield fixture.call("head", thread.thread_id)), thread.ids[-1], "the head")


@clause("steps", Trait.STEPS)
def of_claims_at_once_one_wins(fixture: SaverFixture) -> KitEffects[None]:
    """Of several runs that claim a thread at the same time exactly one is not refused."""
    threads = [fixture.thread() for _ in range(4)]
    claims = [
        committed(fixture, prepared(thread, Fence(None), key=n)) for n, thread in enumerate(threads)
    ]
    outcomes = [outcome for [outcome] in (yield Together(claims))]
    same(sorted(map(str, outcomes)), sorted(map(str, [None] + [ThreadConflict] * 3)), "outcomes")
    found = yield from threads[0].get()
    same(values_of(found), {"key": outcomes.index(None)}, "the values")
    same(len((yield from threads[0].checkpoints())), 1, "the number of checkpoints")


@clause("steps", Trait.STEPS)
def a_claim_keeps_other_runs_out(fixture: SaverFixture) -> KitEffects[None]:
    """`hold` claims a thread: another run's `hold` conflicts, and its own may be repeated."""
    thread, owner = fixture.thread(), Fence(None)
    yield fixture.call("hold", thread.thread_id, owner)
    error = yield from caught(fixture.call("hold", thread.thread_id, Fence(None)))
    holds(isinstance(error, ThreadConflict), f"the other run's hold raised {error!r}")
    yield fixture.call("hold", thread.thread_id, owner)
    same((yield from committed(fixture, prepared(thread, owner, key=1))), [None], "its commit")


@clause("steps", Trait.STEPS)
def a_claim_is_given_back(fixture: SaverFixture) -> KitEffects[None]:
    """After `release` another run can claim the thread; an unused claim leaves no thread."""
    thread, owner = fixture.thread(), Fence(None)
    yield fixture.call("hold", thread.thread_id, owner)
    owner.ended = True
    yield fixture.call("release", thread.thread_id, owner, owner.before)
    same((yield from thread.find()), None, "the thread")
    yield fixture.call("hold", thread.thread_id, Fence(None))
