"""A dry run: which threads would the present code fail to read, or to go on with?

Run it before a deploy, in a process that has compiled the new graphs. It only reads.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._db.calls import amake_calls, make_calls
from milepost.errors import BrokenChainError, MissingNodeError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from milepost._db.calls import Calls
    from milepost.checkpoint.serde.base import SerializerProtocol


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Takes the place of a value that did not decode, so that the rest can be looked at.

    Examples:
        >>> from milepost.checkpoint.serde.evolution import Unreadable
        >>> from milepost.errors import UnregisteredTypeError
        >>> Unreadable(UnregisteredTypeError("shop:Order")).error
        UnregisteredTypeError('shop:Order')
    """

    error: SerdeError
    """Why it did not decode."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One value that the present code cannot read, or one thread that it cannot go on with.

    Examples:
        >>> from milepost.checkpoint.serde.evolution import Failure
        >>> def line(failure: Failure) -> str:
        ...     return f"{failure.thread}, {failure.channel}: {failure.error}"
    """

    thread: str | None
    """None if the saver failed before it said which thread it was reading."""
    namespace: str
    """The graph: "" for the outermost."""
    checkpoint: str | None
    """The checkpoint."""
    channel: str | None
    """None if the checkpoint as a whole does not read, or waits for a node that is missing."""
    error: Exception
    """What reading it raised."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run found.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.checkpoint.serde.evolution import dry_run
        >>> report = dry_run(InMemorySaver())
        >>> report.checked, report.complete
        (0, True)
    """

    checked: int
    """How many checkpoints were read."""
    failures: list[Failure] = field(default_factory=list)
    """What cannot be read, or gone on with."""
    complete: bool = True
    """False if the saver gave up before its end; pass `threads` to look at each by itself."""

    @property
    def threads(self) -> list[str]:
        """The threads that would fail, each once."""
        return sorted({f.thread for f in self.failures if f.thread is not None})

    def __bool__(self) -> bool:
        """True if everything can be read, and with `graph`, gone on with."""
        return self.complete and not self.failures


def dry_run(saver: Any, *, threads: Iterable[str] | None = None, graph: Any = None) -> DryRun:
    """Read every checkpoint of a saver, through its public `list`, and report what fails.

    Args:
        saver: The saver.
        threads: Read only these, each by itself, so that one which fails as a whole does not hide
            the others.
        graph: The compiled graph that these are threads of; a thread that waits for a node which
            the graph does not have is reported too.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.checkpoint.serde.evolution import dry_run
        >>> dry_run(InMemorySaver()).failures
        []
    """
    return make_calls(_dry_run(saver, threads, graph, is_async=False))


async def adry_run(
    saver: Any, *, threads: Iterable[str] | None = None, graph: Any = None
) -> DryRun:
    """`dry_run`, for use on an event loop.

    Args:
        saver: The saver.
        threads: Read only these, each by itself.
        graph: The compiled graph that these are threads of.

    Examples:
        >>> import asyncio
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.checkpoint.serde.evolution import adry_run
        >>> asyncio.run(adry_run(InMemorySaver())).failures
        []
    """
    return await amake_calls(_dry_run(saver, threads, graph, is_async=True))


def _dry_run(
    saver: Any, threads: Iterable[str] | None, graph: Any, *, is_async: bool
) -> Calls[DryRun]:
    read = _Checkpoints(_with_probe(saver))
    failures, complete = read.failures, True
    for thread in (None,) if threads is None else threads:
        config = None if thread is None else _config_of(thread)
        try:
            yield partial(read.aread if is_async else read.read, config)
        except Exception as error:
            complete = complete and thread is not None
            known, channel = getattr(error, "thread", None), getattr(error, "channel", None)
            failures.append(Failure(thread or known, "", None, channel, error))
    if graph is not None:
        graph = graph.copy({"checkpointer": saver})
        for thread in read.threads:
            state = graph.aget_state if is_async else graph.get_state
            try:
                yield partial(state, _config_of(thread), subgraphs=True)
            except MissingNodeError as error:
                failures.append(Failure(thread, "", None, None, error))
            except (SerdeError, BrokenChainError):
                pass  # noted already
    return DryRun(read.count, failures, complete)


class _Checkpoints:
    """The checkpoints that were read so far."""

    def __init__(self, probe: Any) -> None:
        self._probe = probe
        self.count = 0
        self.failures: list[Failure] = []
        self.threads: dict[str, None] = {}

    def read(self, config: dict[str, Any] | None) -> None:
        for saved in self._probe.list(config):
            self._add(saved)

    async def aread(self, config: dict[str, Any] | None) -> None:
        async for saved in self._probe.alist(config):
            self._add(saved)

    def _add(self, saved: Any) -> None:
        self.count += 1
        place = saved.config["configurable"]
        if not place.get("checkpoint_ns"):
            self.threads[place["thread_id"]] = None
        self.failures.extend(_failures(saved))


def _config_of(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


def _with_probe(saver: Any) -> Any:
    """The saver with a serializer that goes on where the real one would stop."""
    serde = getattr(saver, "serde", None)
    if serde is None:
        return saver
    probing = getattr(saver, "with_serde", None)
    if probing is not None:
        return probing(_Probe(serde))
    probe = copy.copy(saver)
    probe.serde = _Probe(serde)
    return probe


class _Probe:
    """Reads with the real serializer; a failure becomes a value."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._serde, name)
        if name not in _READING:
            return found

        def read(*args: Any) -> Any:
            try:
                return found(*args)
            except SerdeError as error:
                return Unreadable(error)

        return read


_READING = frozenset({"loads_typed", "loads_typed_at", "decode", "decode_pieces"})


def _failures(saved: Any) -> Iterator[Failure]:
    place = saved.config.get("configurable", {})
    thread, namespace = place.get("thread_id"), place.get("checkpoint_ns", "")
    checkpoint = place.get("checkpoint_id")
    if isinstance(saved.checkpoint, Unreadable):
        yield Failure(thread, namespace, checkpoint, None, saved.checkpoint.error)
        return
    values = list(saved.checkpoint.get("channel_values", {}).items())
    values.append(("(the metadata)", getattr(saved, "metadata", None)))
    values += [(channel, value) for _, channel, value in saved.pending_writes or ()]
    for channel, value in values:
        if isinstance(value, Unreadable):
            error = value.error.at(thread=thread, channel=channel)
            yield Failure(thread, namespace, checkpoint, channel, error)
