"""What was done and when: one JSON line before each call, one after it.

Lines are written with `os.write` before the call goes on, so that those of a killed process are
there. Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import resource
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One line of a history."""

    worker: str
    """Slot and life of the process: `0.2` is the third process in the first slot."""
    thread: int
    """Index of the thread or asyncio task inside the worker."""
    number: int
    """Of the call, in its worker: a begin and its end have the same."""
    phase: str
    """`begin`, `end`, or `note` for what is told at one moment."""
    at: int
    """`time.monotonic_ns()`."""
    operation: str
    arguments: dict[str, Any] = {}
    outcome: str | None = None
    """`ok` or `error`, at the end."""
    result: Any = None
    error: list[str] | None = None
    """The type with its module, and the text."""


class Call:
    """A call that is going on. Set `result`, in JSON's types, before it ends."""

    def __init__(self) -> None:
        self.result: Any = None


class Recorder:
    """Writes the history of one thread or task of a worker."""

    _numbers = itertools.count()

    def __init__(self, descriptor: int, worker: str, thread: int) -> None:
        self._descriptor = descriptor
        self.worker = worker
        self.thread = thread

    @contextmanager
    def call(self, operation: str, **arguments: Any) -> Iterator[Call]:
        """Record a call: that it begins, and how it ends. Errors go on to the caller."""
        number, call = next(self._numbers), Call()
        self._write(number, "begin", operation, arguments)
        try:
            yield call
        except BaseException as error:
            told = [f"{type(error).__module__}.{type(error).__qualname__}", str(error)[:1000]]
            self._write(number, "end", operation, arguments, "error", call.result, told)
            raise
        self._write(number, "end", operation, arguments, "ok", call.result)

    def note(self, operation: str, **arguments: Any) -> None:
        """Record what is known at this moment."""
        self._write(next(self._numbers), "note", operation, arguments)

    def _write(self, number: int, phase: str, *rest: Any) -> None:
        event = Event(self.worker, self.thread, number, phase, time.monotonic_ns(), *rest)
        write_line(self._descriptor, event)


_writing = threading.Lock()


def write_line(descriptor: int, event: Event) -> None:
    data = (json.dumps(event) + "\n").encode()
    with _writing:
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                with _no_quota():
                    data = data[os.write(descriptor, data) :]


@contextmanager
def _no_quota() -> Iterator[None]:
    """The fault "disk full" limits every file of the process, but not the history."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def open_history(directory: str | Path, worker: str) -> int:
    """The file of one worker, for its recorders."""
    path = Path(directory) / f"worker-{worker}.jsonl"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def read(directory: str | Path) -> list[Event]:
    """All events of a directory in the order of their times. A line that was cut off is left out."""
    events = []
    for path in sorted(Path(directory).glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                events.append(Event(*json.loads(line)))
            except ValueError:
                continue  # the process was killed in the middle of it
    return sorted(events, key=lambda event: event.at)


class Span(NamedTuple):
    """A call from its beginning to its end."""

    begin: Event
    end: Event | None
    """None if the process died in it, or has not come back yet."""

    @property
    def operation(self) -> str:
        return self.begin.operation

    @property
    def arguments(self) -> dict[str, Any]:
        return self.begin.arguments

    @property
    def is_ok(self) -> bool:
        return self.end is not None and self.end.outcome == "ok"

    @property
    def result(self) -> Any:
        return None if self.end is None else self.end.result

    @property
    def error(self) -> str | None:
        """The name of the error's type, without its module."""
        told = self.end and self.end.error
        return told[0].rpartition(".")[2] if told else None

    @property
    def start(self) -> int:
        return self.begin.at

    @property
    def stop(self) -> float:
        """What has not ended may still have an effect at any later time."""
        return float("inf") if self.end is None else self.end.at

    def overlaps(self, start: float, stop: float) -> bool:
        return self.start <= stop and start <= self.stop


def spans(events: list[Event]) -> list[Span]:
    """Beginnings and ends brought together, in the order of the beginnings."""
    ends = {(event.worker, event.number): event for event in events if event.phase == "end"}
    return [
        Span(event, ends.get((event.worker, event.number)))
        for event in events
        if event.phase == "begin"
    ]


def digest(value: Any) -> str:
    """A short text that two values share only if they are equal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def canonical(value: Any) -> str:
    """A form that does not depend on the order of a dict's keys."""
    if isinstance(value, Mapping):
        items = sorted((canonical(key), canonical(value[key])) for key in value)
        return "{" + ",".join(f"{key}:{item}" for key, item in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(canonical, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    return repr(value)
