"""How a run hands its steps to a saver.

A ledger belongs to one run on one thread; the graphs inside that run share it. It speaks to our
own savers in whole steps, and to any other saver through the five methods of the contract.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.commit import Fence, StepCommit, StepSaver
from milepost.checkpoint.records import Checkpoint, Place
from milepost.errors import MilepostError, SaverError, SerializationError, ThreadConflict
from milepost.runtime.effects import Ask

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.types import Durability

BACKLOG_LIMIT = 256
"""Steps that may wait for a slow saver before the run waits too; a large one counts as several.

Few of them would do for a program that waits for models. One that does not makes a hundred before
the interpreter lets the writer have its turn, and each time that it waits, it waits for a disk."""
LARGE = 250_000
"""Bytes for which a step counts as one more: so the bytes that wait are bounded as well."""


class Ledger:
    """A run's way to the saver of its thread."""

    __slots__ = (
        "_opening",
        "backlog",
        "deferred",
        "durability",
        "fence",
        "instant",
        "native",
        "saver",
        "steadfast",
        "stores_whole",
        "thread_id",
    )

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        thread_id: str,
        durability: Durability,
        fence: Fence,
    ) -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.durability = durability
        self.fence = fence
        self.native = saver if isinstance(saver, StepSaver) else None
        self.instant = self.native is not None and self.native.instant
        self.steadfast = self.native is not None and self.native.steadfast
        self.deferred = durability == "async" and not self.instant
        """Whether steps are stored while the run goes on."""
        self.stores_whole = self.native is not None and not self.deferred
        """Whether whole steps are stored, and the run waits for that."""
        self.backlog: Backlog | None = None
        """Steps that are still to be stored, once there have been any."""
        self._opening = threading.Lock()

    def prepare(self, step: StepCommit) -> Any:
        """Encode a step, so that what the program does next cannot change it."""
        if self.native is not None:
            return self.native.prepare(step)
        if step.new is None:
            return self._detached(step)
        # Another saver encodes in `put`, which may run while the next node is at work.
        values = step.new.values()
        checkpoint = Checkpoint(
            **{
                **step.new.checkpoint,
                "channel_values": values,
                "channel_versions": dict(step.new.checkpoint["channel_versions"]),
                "versions_seen": {
                    node: dict(seen) for node, seen in step.new.checkpoint["versions_seen"].items()
                },
            }
        )
        return self._detached(replace(step, new=replace(step.new, checkpoint=checkpoint)))

    def _detached(self, step: StepCommit) -> StepCommit:
        if not self.deferred:
            return step
        new = step.new
        try:
            if new is not None:
                new = replace(new, checkpoint=deepcopy(new.checkpoint), values=dict)
            writes = [replace(task, writes=deepcopy(list(task.writes))) for task in step.writes]
        except Exception as error:
            raise SerializationError(
                f"A value in the state of thread '{self.thread_id}' cannot be copied, so "
                f"{type(self.saver).__name__} cannot save it while the run goes on: {error!r}. "
                'Keep it out of the state, or run with durability="sync".'
            ) from error
        return replace(step, writes=writes, new=new)

    def open_backlog(self) -> tuple[Backlog, bool]:
        """The backlog, and whether it was opened just now and needs somebody who stores it."""
        with self._opening:  # graphs inside the run may be at work side by side
            if (backlog := self.backlog) is not None and not backlog.deserted:
                return backlog, False
            backlog = self.backlog = Backlog(self._load)
            return backlog, True

    def _load(self, step: Any) -> int:
        """What a prepared step counts for in the backlog."""
        return 1 if self.native is None else 1 + self.native.weight(step) // LARGE

    def _check_going_on(self) -> None:
        """A run that was interrupted is over, though tasks of it may still be at work."""
        if self.fence.ended:
            raise ThreadConflict(
                f"The run on thread '{self.thread_id}' was interrupted and has ended. What a task "
                "of it has done since then is not stored; a resume runs the task again."
            )

    def store_now(self, steps: Sequence[Any]) -> None:
        """Store prepared steps in one of our own savers, in sync code."""
        assert self.native is not None
        self._check_going_on()
        try:
            _raise_first(self.native.commit(steps))
        except Exception as error:
            raise self._typed(error)  # noqa: B904 - it carries its cause

    async def astore_now(self, steps: Sequence[Any]) -> None:
        """`store_now`, for use on an event loop."""
        assert self.native is not None
        self._check_going_on()
        try:
            _raise_first(await self.native.acommit(steps))
        except Exception as error:
            raise self._typed(error)  # noqa: B904 - it carries its cause

    def store(self, steps: Sequence[Any]) -> Generator[Ask, Any, None]:
        """Store prepared steps in any other saver, in order; raises the first failure."""
        self._check_going_on()
        try:
            for step in steps:
                yield from self._store_foreign(step)
        except Exception as error:
            raise self._typed(error)  # noqa: B904 - it carries its cause

    def _typed(self, error: Exception) -> Exception:
        """An error of the saver as one of ours, with the original as its cause."""
        if isinstance(error, (MilepostError, NotImplementedError)):
            return error
        typed = SaverError(
            f"{type(self.saver).__name__} could not save a step of thread '{self.thread_id}': "
            f"{error!r}. "
            + (
                "Nothing of this run is stored; mend the cause and repeat the call."
                if self.durability == "exit"
                else "The steps before it are stored; mend the cause and resume the thread."
            )
        )
        typed.__cause__ = error
        return typed

    def _store_foreign(self, step: StepCommit) -> Generator[Ask, Any, None]:
        config = Place(step.thread_id, step.checkpoint_ns, step.checkpoint_id).config()
        for task in step.writes:
            yield Ask(
                self.saver, "put_writes", (config, list(task.writes), task.task_id, task.task_path)
            )
        if (new := step.new) is not None:
            versions = new.checkpoint["channel_versions"]
            changed = {name: versions[name] for name in new.changed}
            yield Ask(self.saver, "put", (config, new.checkpoint, new.metadata, changed))


def _raise_first(outcome: Sequence[Exception | None]) -> None:
    for error in outcome:
        if error is not None:
            raise error


class Backlog:
    """Prepared steps between the run that makes them and the worker that stores them.

    Knows nothing of threads or loops beyond a lock: drivers of either colour register a callback
    for the moment when what they wait for has come true.
    """

    def __init__(self, load: Callable[[Any], int]) -> None:
        self._lock = threading.Lock()
        self._load = load
        """What a step counts for."""
        self._waiting: deque[Any] = deque()
        self._taken = 0
        self.unstored = 0
        """The load of steps that are not stored yet, those that the worker has taken included."""
        self._watchers: list[tuple[int, Callable[[], None]]] = []
        self._wake: Callable[[], None] | None = None
        self.closed = False
        self.deserted = False
        """Whether the worker has gone before its time: its loop was ended."""
        self.loop: object = None
        """The event loop that stores them, if that is not a thread's work."""
        self.error: BaseException | None = None
        """Why the worker gave up; later steps are not stored after a failed one."""

    def add(self, steps: Sequence[Any]) -> bool:
        """Queue steps, and wake the worker; False if it has gone, and nothing was queued."""
        with self._lock:
            if self.deserted:
                return False
            if self.error is None:
                self._waiting.extend(steps)
                self.unstored += sum(map(self._load, steps))
                self._wake_worker()
            return True

    def desert(self) -> bool:
        """The worker has to go; False if there is something to store first."""
        with self._lock:
            self.deserted = not self._waiting
            return self.deserted

    def take(self, wake: Callable[[], None]) -> list[Any]:
        """Everything that waits; if nothing does, `wake` is called when that changes."""
        with self._lock:
            steps = list(self._waiting)
            self._waiting.clear()
            self._taken = self.unstored
            self._wake = None if steps else wake
            return steps

    def stored(self, error: BaseException | None = None) -> None:
        """The worker has stored what it took, or failed."""
        with self._lock:
            self.unstored -= self._taken
            if error is not None:
                self.error = error
                self._waiting.clear()
                self.unstored = 0
            ready = [tell for limit, tell in self._watchers if self.unstored <= limit]
            self._watchers = [w for w in self._watchers if self.unstored > w[0]]
        for tell in ready:
            tell()

    def is_above(self, limit: int, tell: Callable[[], None]) -> bool:
        """Whether more than `limit` is not stored; if so, `tell` is called later."""
        with self._lock:
            if self.unstored <= limit:
                return False
            self._watchers.append((limit, tell))
            self._wake_worker()  # whoever added steps may have been interrupted before
            return True

    def close(self) -> None:
        """Let the worker go, when it has stored what there is."""
        with self._lock:
            self.closed = True
            self._wake_worker()

    def _wake_worker(self) -> None:
        if self._wake is not None:
            self._wake()
            self._wake = None

    def raise_error(self) -> None:
        """Raise what made the worker give up, if it did."""
        if self.error is not None:
            raise self.error
