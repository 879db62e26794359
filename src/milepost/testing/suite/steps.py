"""StepSaver: a step is stored in one go, by the run that owns the thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from milepost.checkpoint.commit import Fence, NewCheckpoint, StepCommit, StepSaver, TaskWrites
from milepost.errors import SerdeError, ThreadConflict
from milepost.testing.clauses import Trait, clause, holds, same
from milepost.testing.desk import Desk, Trail, id_in, values_of
from milepost.testing.effects import Program, Together, call, caught
from milepost.testing.suite.writes import pending


def prepared(
    trail: Trail, fence: Fence, step: int = 0, writes: Sequence[tuple[str, Any]] = (), **new: Any
) -> Any:
    """The next step of a thread: a task's writes and a checkpoint, as the saver prepares it."""
    parent = id_in(trail.head)
    tasks = [TaskWrites("task", "~1", "node", writes)] if writes else []
    made = None
    if new:
        checkpoint, _changed = trail.next(**new)
        values = checkpoint["channel_values"]
        checkpoint["channel_values"] = {}
        made = NewCheckpoint(
            checkpoint, {"source": "loop", "step": step, "parents": {}}, new, values.copy
        )
        trail.head = trail.at(checkpoint["id"])
    commit = StepCommit(trail.thread_id, trail.ns, parent, tasks, made, fence)
    return cast("StepSaver[Any]", trail.saver).prepare(commit)


def committed(desk: Desk, *steps: Any) -> Program[list[type[Exception] | None]]:
    """Commit steps; for each, what was wrong with it."""
    outcome = yield call(desk.saver, "commit", list(steps))
    return [None if error is None else type(error) for error in outcome]


@clause("steps", Trait.STEPS, Trait.HISTORY)
def a_step_is_stored_in_one_go(desk: Desk) -> Program[None]:
    """One commit stores a task's writes at the parent and the checkpoint that they lead to."""
    trail, fence = desk.trail(), Fence(None)
    first = prepared(trail, fence, 0, still=[1], key="a")
    second = prepared(trail, fence, 1, [("key", "b")], key="b")
    same((yield from committed(desk, first)), [None], "the outcome")
    same((yield from committed(desk, second)), [None], "the outcome")
    found = yield from trail.get()
    same(values_of(found), {"still": [1], "key": "b"}, "the values")
    same((found.metadata["step"], id_in(found.parent_config)), (1, trail.ids[0]), "step, parent")
    writes = yield from pending(trail, trail.at(trail.ids[0]))
    same(writes, [("task", "key", "b")], "the writes at the parent")


@clause("steps", Trait.STEPS)
def prepare_stores_nothing(desk: Desk) -> Program[None]:
    """What was only prepared cannot be read, and the thread is still free."""
    trail = desk.trail()
    prepared(trail, Fence(None), key="a")
    same((yield from desk.trail().look()), None, "the thread")
    other = desk.trail()
    same((yield from committed(desk, prepared(other, Fence(None), key=1))), [None], "a commit")


@clause("steps", Trait.STEPS)
def prepare_takes_a_copy(desk: Desk) -> Program[None]:
    """Changing a value between `prepare` and `commit` does not change what is stored."""
    trail, value, written = desk.trail(), {"items": [1]}, [1]
    fence = Fence(None)
    first = prepared(trail, fence, 0, key=value)
    later = prepared(trail, fence, 1, [("key", written)])
    value["items"].append(2)
    written.append(2)
    same((yield from committed(desk, first, later)), [None, None], "the outcome")
    found = yield from trail.get()
    same(values_of(found), {"key": {"items": [1]}}, "the values")
    same(found.pending_writes, [("task", "key", [1])], "the writes")


@clause("steps", Trait.STEPS)
def what_cannot_be_stored_is_refused_by_prepare(desk: Desk) -> Program[None]:
    """A value that cannot be read back is refused before anything is stored."""
    for given in ({"key": object()}, {"writes": [("key", object())]}):
        trail = desk.trail()
        try:
            prepared(trail, Fence(None), **given)
        except SerdeError:
            pass
        else:
            holds(False, f"prepare accepted {given}")
        same((yield from trail.look()), None, "the thread")


@clause("steps", Trait.STEPS, Trait.HISTORY)
def a_batch_is_stored_in_order(desk: Desk) -> Program[None]:
    """Several steps in one commit are stored as if they came one by one."""
    trail, fence = desk.trail(), Fence(None)
    batch = [prepared(trail, fence, n, key=n) for n in range(4)]
    same((yield from committed(desk, *batch)), [None] * 4, "the outcome")
    same((yield from trail.steps()), [3, 2, 1, 0], "the steps")
    for n, id in enumerate(trail.ids):
        found = yield from trail.get(trail.at(id))
        same(values_of(found), {"key": n}, "the values")


@clause("steps", Trait.STEPS)
def a_bad_step_fails_alone(desk: Desk) -> Program[None]:
    """A stale step in a batch is refused; those beside it are stored."""
    taken, fine, more = desk.trail("taken"), desk.trail("fine"), desk.trail("more")
    yield from committed(desk, prepared(taken, Fence(None), key="owner"))
    batch = [
        prepared(fine, Fence(None), key=1),
        prepared(desk.trail("taken"), Fence(None), key="stale"),
        prepared(more, Fence(None), key=2),
    ]
    outcome = yield from committed(desk, *batch)
    same(outcome, [None, ThreadConflict, None], "the outcome")
    for trail, wanted in ((fine, 1), (more, 2), (taken, "owner")):
        same(values_of((yield from trail.get())), {"key": wanted}, f"thread {trail.thread_id}")


@clause("steps", Trait.STEPS)
def the_first_commit_compares_the_head(desk: Desk) -> Program[None]:
    """A run whose thread has moved on since it was loaded conflicts and stores nothing."""
    trail = desk.trail()
    yield from committed(desk, prepared(trail, Fence(None), 0, key=0))
    loaded = trail.ids[-1]
    late = trail.branch()
    yield from committed(desk, prepared(trail, Fence(loaded), 1, key=1))
    stale = prepared(late, Fence(loaded), 2, [("key", "late")], key="late")
    same((yield from committed(desk, stale)), [ThreadConflict], "the outcome")
    found = yield from trail.get()
    same(values_of(found), {"key": 1}, "the values")
    same((yield from trail.look(late.head)), None, "the checkpoint of the late run")


@clause("steps", Trait.STEPS)
def a_later_commit_needs_the_token(desk: Desk) -> Program[None]:
    """When another run has taken the thread, the earlier one conflicts, whatever it commits."""
    trail, first = desk.trail(), Fence(None)
    yield from committed(desk, prepared(trail, first, 0, key=0))
    late = trail.branch()
    yield from committed(desk, prepared(trail, Fence(trail.ids[-1]), 1, key=1))
    for stale in (prepared(late, first, 2, key=2), prepared(late, first, 2, [("key", 2)])):
        same((yield from committed(desk, stale)), [ThreadConflict], "the outcome")
    found = yield from trail.get()
    same((values_of(found), found.pending_writes), ({"key": 1}, []), "values and writes")


@clause("steps", Trait.STEPS)
def writes_alone_take_the_thread(desk: Desk) -> Program[None]:
    """A commit without a checkpoint claims the thread too."""
    trail, first = desk.trail(), Fence(None)
    yield from committed(desk, prepared(trail, first, 0, key=0))
    yield from committed(desk, prepared(trail, Fence(trail.ids[-1]), 1, [("key", 1)]))
    outcome = yield from committed(desk, prepared(trail.branch(), first, 1, key=1))
    same(outcome, [ThreadConflict], "the outcome of the run before")


@clause("steps", Trait.STEPS)
def a_fork_on_purpose_takes_the_thread(desk: Desk) -> Program[None]:
    """A run that starts from an older checkpoint on purpose need not match the head."""
    trail = desk.trail()
    yield from committed(desk, prepared(trail, Fence(None), 0, key=0))
    fork = trail.branch()
    yield from committed(desk, prepared(trail, Fence(trail.ids[-1]), 1, key=1))
    fork.ids = list(trail.ids)
    fence = Fence(id_in(fork.head), forced=True)
    same((yield from committed(desk, prepared(fork, fence, 1, key="fork"))), [None], "the outcome")
    same(values_of((yield from trail.get())), {"key": "fork"}, "the values")


@clause("steps", Trait.STEPS)
def a_deleted_thread_refuses_its_old_run(desk: Desk) -> Program[None]:
    """A run whose thread was deleted conflicts, and the thread stays deleted."""
    trail, fence = desk.trail(), Fence(None)
    yield from committed(desk, prepared(trail, fence, 0, key=0))
    yield call(desk.saver, "delete_thread", trail.thread_id)
    same((yield from committed(desk, prepared(trail, fence, 1, key=1))), [ThreadConflict], "it")
    same((yield from trail.look()), None, "the thread")


@clause("steps", Trait.STEPS)
def the_head_is_the_latest_of_the_root(desk: Desk) -> Program[None]:
    """`head` gives the id of the root graph's latest checkpoint; inner graphs do not move it."""
    trail, child, fence = desk.trail(), desk.trail(ns="child:1"), Fence(None)
    same((yield call(desk.saver, "head", trail.thread_id)), None, "an unknown thread")
    for _ in range(2):
        same((yield from committed(desk, prepared(trail, fence, key=1))), [None], "the outcome")
        same((yield from committed(desk, prepared(child, fence, key=1))), [None], "the outcome")
        same((yield call(desk.saver, "head", trail.thread_id)), trail.ids[-1], "the head")


@clause("steps", Trait.STEPS)
def of_claims_at_once_one_wins(desk: Desk) -> Program[None]:
    """Of several runs that claim a thread at the same time exactly one is not refused."""
    trails = [desk.trail() for _ in range(4)]
    claims = [
        committed(desk, prepared(trail, Fence(None), key=n)) for n, trail in enumerate(trails)
    ]
    outcomes = [outcome for [outcome] in (yield Together(claims))]
    same(sorted(map(str, outcomes)), sorted(map(str, [None] + [ThreadConflict] * 3)), "outcomes")
    found = yield from trails[0].get()
    same(values_of(found), {"key": outcomes.index(None)}, "the values")
    same(len((yield from trails[0].list())), 1, "the number of checkpoints")


@clause("steps", Trait.STEPS)
def a_claim_keeps_other_runs_out(desk: Desk) -> Program[None]:
    """`hold` claims a thread: another run's `hold` conflicts, and its own may be repeated."""
    trail, owner = desk.trail(), Fence(None)
    yield call(desk.saver, "hold", trail.thread_id, owner)
    error = yield from caught(call(desk.saver, "hold", trail.thread_id, Fence(None)))
    holds(isinstance(error, ThreadConflict), f"the other run's hold raised {error!r}")
    yield call(desk.saver, "hold", trail.thread_id, owner)
    same((yield from committed(desk, prepared(trail, owner, key=1))), [None], "its commit")


@clause("steps", Trait.STEPS)
def a_claim_is_given_back(desk: Desk) -> Program[None]:
    """After `release` another run can claim the thread; an unused claim leaves no thread."""
    trail, owner = desk.trail(), Fence(None)
    yield call(desk.saver, "hold", trail.thread_id, owner)
    owner.ended = True
    yield call(desk.saver, "release", trail.thread_id, owner, owner.before)
    same((yield from trail.look()), None, "the thread")
    yield call(desk.saver, "hold", trail.thread_id, Fence(None))
