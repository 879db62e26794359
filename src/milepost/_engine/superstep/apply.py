"""The end of a super-step: the writes of its tasks become the next state.

Pure: no I/O, no clock. Reducers run here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._engine.superstep.mistaken_updates import check_for_itself
from milepost._internal.notes import add_note
from milepost.channels.binop import BinaryOperatorAggregate
from milepost.errors import InvalidUpdateError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph, Writer


def apply_writes(
    program: ExecutableGraph,
    channels: ChannelState,
    writers: Sequence[Writer],
    next_version: Callable[[Any, None], Any],
    *,
    is_step: bool = True,
) -> set[str]:
    """Apply what `writers` wrote, in their order, and return the channels that changed.

    `is_step` says that a step has ended: channels that live for one step are cleared, and if
    nothing is left to run, channels that wait for that are notified.
    """
    version = next_version(channels.top, None)
    changed: set[str] = set()
    _mark_seen(channels, writers)
    if program.consumed:
        _consume(channels, writers, version, changed)

    # Each channel gets all of its writes in one call.
    by_channel: dict[str, list[Any]] = {}
    specs, live, versions = program.channels, channels.live, channels.versions
    for writer in writers:
        for name, value in writer.writes:
            if name in by_channel:
                by_channel[name].append(value)
            elif name in specs:
                by_channel[name] = [value]
    for name, values in by_channel.items():
        channel = live[name] if name in live else channels.channel(name)
        if type(channel) is BinaryOperatorAggregate:
            check_for_itself(program, name, channel, values, writers)
        try:
            updated = channel.update(values)
        except InvalidUpdateError as error:
            raise InvalidUpdateError(f"{error} {_who_wrote(name, writers)}") from None
        except Exception as error:
            add_note(error, f"In the reducer of key '{name}'. {_who_wrote(name, writers)}")
            raise
        if updated:
            versions[name] = version
            changed.add(name)
            if channel.volatile:
                channels.volatile.add(name)

    if is_step:
        if channels.volatile:
            _clear_volatile(channels, by_channel, version, changed)
        if program.finish_channels:
            _finish(program, channels, version, changed)
    if changed:
        channels.top = version
        channels.dirty |= changed
        channels.refresh(changed)
    return changed


def _mark_seen(channels: ChannelState, writers: Sequence[Writer]) -> None:
    """Mark the triggers of each writer as seen."""
    versions = channels.versions
    for writer in writers:
        seen = {}
        for name in writer.triggers:
            if name in versions:
                seen[name] = versions[name]
        if seen:
            before = channels.seen.get(writer.name)
            channels.seen[writer.name] = {**before, **seen} if before else seen
            channels.unsaved_seen.add(writer.name)


def _consume(
    channels: ChannelState, writers: Sequence[Writer], version: Any, changed: set[str]
) -> None:
    """Tell the triggers of each writer that the writer has run."""
    for writer in writers:
        for name in writer.triggers:
            channel = channels.live.get(name)
            if channel is not None and channel.consume():
                channels.versions[name] = version
                changed.add(name)


def _clear_volatile(
    channels: ChannelState, written: Container[str], version: Any, changed: set[str]
) -> None:
    """Clear the channels whose value lasts for one step, unless the step has written them."""
    for name in tuple(channels.volatile):
        if name in written:
            continue
        channel = channels.live[name]
        if not channel.is_available():
            channels.volatile.discard(name)
        elif channel.update(()):
            channels.versions[name] = version
            changed.add(name)


def _finish(
    program: ExecutableGraph, channels: ChannelState, version: Any, changed: set[str]
) -> None:
    """Tell channels that wait for the end of the run, if no change starts another node."""
    live = channels.live
    if any(name in program.triggers and live[name].is_available() for name in changed):
        return
    for name in program.finish_channels:
        waiting = live.get(name)
        if waiting is not None and waiting.finish():
            channels.versions[name] = version
            changed.add(name)


def cannot_fail(
    program: ExecutableGraph, channels: ChannelState, writers: Sequence[Writer]
) -> bool:
    """Whether no write can be refused: no channel combines or checks values."""
    names = [name for writer in writers for name, _ in writer.writes]
    return (
        program.overwriting.issuperset(names)
        and len(set(names)) == len(names)
        and program.overwriting.issuperset(channels.volatile)
        and not program.finish_channels
        and not program.consumed
    )


def _who_wrote(name: str, writers: Sequence[Writer]) -> str:
    nodes = sorted({w.name for w in writers if any(channel == name for channel, _ in w.writes)})
    return f"Written by: {', '.join(repr(node) for node in nodes)}."
