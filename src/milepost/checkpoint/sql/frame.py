"""What a checkpoint says besides its values: a frame.

Every step has one, which differs from its parent's in a few channels. Of a state with many keys it
is therefore kept as just that, on top of a frame that it shares with those before it: to copy all
keys for every step would cost more than all else that the step does to them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Lookup: TypeAlias = "Callable[[str], Any]"
Inline: TypeAlias = Any
"""None for an emptied channel, False for one with a row of its own, or kind, bytes.

True, until the frame is stored, for a channel of which only the parent's frame knows more.
"""

_WIDE: Final = 64
"""Channels from which on a frame is not copied."""
_MOST: Final = 64
"""Channels that may differ from a shared frame before it is copied after all."""
_PARTS: Final = ("inline", "seen", "versions")
"""What a frame has of each channel or node."""


class Frame:
    """The versions of channels, what each node has seen, and the small values."""

    __slots__ = ("inline", "nodes", "seen", "versions", "width")

    def __init__(
        self,
        versions: Mapping[str, Any],
        seen: Mapping[str, Mapping[str, Any]],
        inline: Mapping[str, Inline],
    ) -> None:
        self.versions = versions
        self.seen = seen
        self.inline = inline
        self.width = len(versions)
        """How many channels have a version."""
        self.nodes = len(seen)
        """How many nodes have seen any."""

    def lookups(self) -> tuple[Lookup, Lookup, Lookup]:
        """What tell the version of a channel, what is held for it, and what a node has seen.

        None for what is not there; so is what is held for an emptied channel.
        """
        return self.versions.get, self.inline.get, self.seen.get

    def large(self) -> list[tuple[str, str]]:
        """The channels and versions that have rows of their own."""
        versions = self.versions
        found = []
        for channel, held in self.inline.items():
            if held is False and channel in versions:
                found.append((channel, str(versions[channel])))
        return found

    def after(self, changes: Frame, width: int, nodes: int) -> Frame:
        """This frame with changes, which leave it with so many channels and nodes."""
        if width < _WIDE:
            return self.merged(changes)
        below, own = self._layers()
        own = changes if own is None else own.merged(changes)
        if own.width > _MOST or own.nodes > _MOST:
            return below.merged(own)
        return _Later(below, own, width, nodes)

    def merged(self, changes: Frame) -> Frame:
        """The same as a copy."""
        return Frame(
            {**self.versions, **changes.versions},
            {**self.seen, **changes.seen},
            {**self.inline, **changes.inline},
        )

    def _layers(self) -> tuple[Frame, Frame | None]:
        return self, None


class _Later(Frame):
    """A frame as another one with changes, put together when somebody looks at all of it."""

    __slots__ = ("_below", "_own")

    def __init__(self, below: Frame, own: Frame, width: int, nodes: int) -> None:
        self._below = below
        self._own = own
        self.width = width
        self.nodes = nodes

    def __getattr__(self, name: str) -> Any:
        """One of the three that nobody has looked at yet."""
        if name not in _PARTS:
            raise AttributeError(name)
        whole = {**getattr(self._below, name), **getattr(self._own, name)}
        setattr(self, name, whole)
        return whole

    def lookups(self) -> tuple[Lookup, Lookup, Lookup]:
        own, below = self._own, self._below
        return (
            partial(_either, own.versions, below.versions),
            partial(_either, own.inline, below.inline),
            partial(_either, own.seen, below.seen),
        )

    def _layers(self) -> tuple[Frame, Frame | None]:
        return self._below, self._own


def _either(own: Mapping[str, Any], below: Mapping[str, Any], name: str) -> Any:
    return own[name] if name in own else below.get(name)
