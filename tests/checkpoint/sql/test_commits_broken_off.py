"""A commit that is broken off leaves nobody waiting for ever, and nothing behind to be stored."""

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from graphs import thread
from milepost._db import group_commit
from milepost._db.group_commit import Committer
from savers import first_step

INTERRUPTIBLE = ("RESUME", "CALL", "CALL_FUNCTION_EX", "CALL_KW", "SEND", "YIELD_VALUE")
"""After these, and where a loop begins again, Python looks whether it was interrupted."""


class NumberStorage:
    """Stores numbers."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.settled: list[tuple[int, bool]] = []

    def steps(self, steps: Any) -> Any:
        self.stored += steps
        yield
        return [None] * len(steps)

    def settle(self, steps: Any, outcome: Any) -> None:
        self.settled += [(n, error is None) for n, error in zip(steps, outcome, strict=True)]


def at_once(work: Any) -> Any:
    """Runs an operation, of a storage that is never asked to store nothing."""
    operation = work()
    next(operation)
    assert work.args[0], "there is nothing to store, and somebody waits for it"
    try:
        operation.send(None)
    except StopIteration as done:
        return done.value


class Interrupts:
    """Raises KeyboardInterrupt at the n-th place in `group_commit.py` where it could come."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.before: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != group_commit.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            at = frame.f_lasti
            before, self.before[frame] = self.before.get(frame, 0), at
            if at < before or dis.opname[frame.f_code.co_code[before]] in INTERRUPTIBLE:
                if self.left == 0:
                    raise KeyboardInterrupt
                self.left -= 1
        return self

    def during(self, call: Callable[[], object]) -> bool:
        """Whether a call was interrupted."""
        others = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(others)
        return False


def test_wherever_a_commit_is_interrupted_the_others_get_their_outcome():
    number = 0
    while True:
        storage = NumberStorage()
        committer: Any = Committer(storage)
        ours, theirs, later = (committer.add([n]) for n in (1, 2, 3))
        interrupts = Interrupts(number)
        interrupted = interrupts.during(lambda: committer.commit(ours, at_once))  # noqa: B023
        assert committer.commit(theirs, at_once) == [None]
        assert committer.commit(later, at_once) == [None]
        assert ours.outcome is not None
        assert {2, 3} <= set(storage.stored)
        assert {n for n, _ in storage.settled} == {1, 2, 3}
        assert committer.commit(committer.add([4]), at_once) == [None]
        assert not committer._queue
        if not interrupted:
            break
        number += 1
    assert number > 20, "there are more places than that"


def interrupted_before(work: Any) -> Any:
    raise KeyboardInterrupt


def interrupted_after(work: Any) -> Any:
    at_once(work)
    raise KeyboardInterrupt


@pytest.mark.parametrize("run", [interrupted_before, interrupted_after])
def test_what_was_broken_off_is_not_stored_later_behind_its_callers_back(run):
    storage = NumberStorage()
    committer: Any = Committer(storage)
    ours = committer.add([1])
    with pytest.raises(KeyboardInterrupt):
        committer.commit(ours, run)
    before = storage.stored.copy()
    assert str(ours.outcome) == "[RuntimeError('the commit was broken off')]"
    assert storage.settled == [(1, False)]
    assert committer.commit(committer.add([2]), at_once) == [None]
    assert storage.stored == [*before, 2]


def test_a_shelf_that_breaks_breaks_only_for_whoever_comes_round():
    class Broken(NumberStorage):
        def settle(self, steps: Any, outcome: Any) -> None:
            super().settle(steps, outcome)
            if len(self.settled) == 2:
                raise ZeroDivisionError

    committer: Any = Committer(Broken())
    ours, theirs = committer.add([1]), committer.add([2])
    with pytest.raises(ZeroDivisionError):
        committer.commit(ours, at_once)
    assert ours.outcome is not None
    assert committer.commit(theirs, at_once) == [None]


@pytest.mark.parametrize("at", ["before", "after"])
def test_steps_of_others_that_are_stored_twice_are_stored_once(saver, at):
    """The interrupt may have come after the database had them."""
    committer = saver._committer
    ours, *theirs = (
        committer.add([saver.prepare(first_step(saver, name))]) for name in ("ours", "a", "b")
    )

    def run(work: Any) -> Any:
        if at == "after":
            saver.engine.run(work, write=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        committer.commit(ours, run)
    for waiting in theirs:
        assert saver.engine.commit(committer, waiting) == [None]
    for name in ("a", "b"):
        assert [found.checkpoint["channel_values"] for found in saver.list(thread(name))] == [
            {"key": "value"}
        ]
    assert (saver.get_tuple(thread("ours")) is not None) == (at == "after")
    assert saver.verify() == []
