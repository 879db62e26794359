"""The live channels of one graph while it runs.

`plan` reads channels, `apply_writes` changes them. The cost of a step depends on what is written:
untouched channels are neither created nor visited.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from milepost.channels.binop import PURE_REDUCERS, BinaryOperatorAggregate
from milepost.channels.ephemeral_value import EphemeralValue
from milepost.channels.last_value import LastValue
from milepost.errors import EmptyChannelError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from milepost.channels.base import BaseChannel
    from milepost.checkpoint._contract.records import ChannelVersions, Checkpoint


NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class ChannelState:
    """Channels with their values and versions."""

    __slots__ = (
        "changed",
        "dirty",
        "drops_names",
        "former_names",
        "key_places",
        "keys",
        "live",
        "seen",
        "specs",
        "top",
        "unsaved_seen",
        "values",
        "versions",
        "volatile",
    )

    def __init__(
        self,
        specs: Mapping[str, BaseChannel[Any, Any, Any]],
        keys: Sequence[str],
        key_places: Mapping[str, int],
        checkpoint: Checkpoint | None,
    ) -> None:
        self.specs = specs
        """The graph's channels as templates, without values."""
        self.keys = keys
        """The channels that make up the state, in the schema's order."""
        self.key_places = key_places
        self.live: dict[str, BaseChannel[Any, Any, Any]] = {}
        """The channels in use; any other has its initial value."""
        self.values: dict[str, Any] = {}
        """The values of the state's keys that have one, in the schema's order."""
        self.versions: ChannelVersions = {}
        self.seen: dict[str, ChannelVersions] = {}
        """Node → versions of its triggers when it last ran. The inner mappings are replaced,
        never changed, so that saving can share them."""
        self.top: Any = None
        """The largest version in use."""
        self.volatile: set[str] = set()
        """Channels that may change in a step that does not write them."""
        self.dirty: set[str] = set()
        """Channels whose present version is not saved."""
        self.unsaved_seen: set[str] = set()
        """Entries of `seen` that are not saved."""
        self.drops_names = False
        """Whether the saved checkpoint has names of channels or nodes that the next leaves out."""
        self.changed: set[str] | None = None
        """Channels that the last step changed; None if that is not known."""
        self.former_names: Mapping[str, str] = NO_NAMES
        """Channel → its name in the loaded checkpoint, if that is another one. Empty once the run
        has made a checkpoint."""
        stored: Mapping[str, Any] = {}
        if checkpoint is not None:
            self.versions = dict(checkpoint["channel_versions"])
            self.seen = dict(checkpoint["versions_seen"])
            self.top = max(self.versions.values(), default=None)
            stored = checkpoint["channel_values"]
        for name in keys:
            self.live[name] = specs[name].from_checkpoint(stored.get(name, MISSING))
        for name in stored:
            if name not in self.live and name in specs:
                self.live[name] = specs[name].from_checkpoint(stored[name])
        for name, channel in self.live.items():
            if channel.volatile and channel.is_available():
                self.volatile.add(name)
        self._read_all()

    def mark_seen(self, node: str, versions: ChannelVersions) -> None:
        """Record the versions that a node has seen."""
        self.seen[node] = versions
        self.unsaved_seen.add(node)

    def channel(self, name: str) -> BaseChannel[Any, Any, Any]:
        """The live channel of this name, made when first used."""
        channel = self.live.get(name)
        if channel is None:
            channel = self.live[name] = self.specs[name].from_checkpoint(MISSING)
        return channel

    def available(self, name: str) -> bool:
        """Whether a channel has a value."""
        channel = self.live.get(name)
        return channel is not None and channel.is_available()

    def replace(self, name: str, channel: BaseChannel[Any, Any, Any]) -> None:
        """Put a rebuilt channel in place: delta channels are rebuilt after loading."""
        self.live[name] = channel
        self._read_all()

    def refresh(self, names: Iterable[str]) -> None:
        """Bring `values` up to date for channels that have changed."""
        values, places = self.values, self.key_places
        for name in names:
            if name not in places:
                continue
            try:
                value = self.live[name].get()
            except EmptyChannelError:
                values.pop(name, None)
                continue
            # A new key has to take its place in the schema's order.
            if name in values or not values or places[next(reversed(values))] < places[name]:
                values[name] = value
            else:
                self._read_all()
                values = self.values

    def rollback_point(self, touched: Iterable[str], nodes: Iterable[str]) -> Callable[[], None]:
        """A function that undoes later changes to these channels, and to `seen` of these nodes."""
        live, versions, seen = self.live, self.versions, self.seen
        channels = {
            name: None if (channel := live.get(name)) is None else channel.copy()
            for name in touched
        }
        known = {name: versions.get(name) for name in channels}
        known_seen = {node: seen.get(node) for node in nodes}
        top, volatile, dirty = self.top, self.volatile.copy(), self.dirty.copy()
        unsaved_seen = self.unsaved_seen.copy()

        def roll_back() -> None:
            _put_back(live, channels)
            _put_back(versions, known)
            _put_back(seen, known_seen)
            self.top, self.volatile, self.dirty = top, volatile, dirty
            self.unsaved_seen = unsaved_seen
            self._read_all()

        return roll_back

    def preview(
        self, writes: Iterable[tuple[str, Any]], *, step_ends: bool = False
    ) -> dict[str, Any]:
        """The state as it would be with some writes applied; nothing is changed.

        `step_ends`: without the values that last for one step and were not written again.
        """
        by_channel: dict[str, list[Any]] = {}
        for name, value in writes:
            if name in by_channel:
                by_channel[name].append(value)
            elif name in self.key_places:
                by_channel[name] = [value]
        if step_ends:
            for name in self.volatile:
                if name in self.key_places:
                    by_channel.setdefault(name, [])
        values = self.values.copy()
        for name, written in by_channel.items():
            channel = self.live[name]
            if type(channel) is LastValue and len(written) == 1:
                values[name] = written[0]
                continue
            channel = channel.copy()
            channel.update(written)
            if channel.is_available():
                values[name] = channel.get()
            else:
                values.pop(name, None)
        return values

    def can_try(self, writes: Iterable[tuple[str, Any]]) -> bool:
        """Whether `preview` of these writes leaves all values as they are, whatever is written."""
        for name in {name for name, _ in writes if name in self.key_places}:
            channel = self.live[name]
            if isinstance(channel, BinaryOperatorAggregate):
                if not any(channel.operator is pure for pure in PURE_REDUCERS):
                    return False
            elif not isinstance(channel, (LastValue, EphemeralValue)):
                return False
        return True

    def pick(self, keys: str | Sequence[str], values: Mapping[str, Any]) -> Any:
        """Some keys of `values` as a dict; for a single name, the bare value of that channel."""
        if not isinstance(keys, str):
            return {key: values[key] for key in keys if key in values}
        if keys in values:
            return values[keys]
        return self.live[keys].get() if self.available(keys) else None

    def stored_value(self, name: str) -> Any:
        """What a checkpoint keeps of a channel; MISSING if nothing."""
        channel = self.live.get(name)
        return MISSING if channel is None else channel.checkpoint()

    def stored_values(self) -> dict[str, Any]:
        """What a checkpoint keeps of all channels that were ever written."""
        return {
            name: value
            for name in self.versions
            if name in self.specs and (value := self.stored_value(name)) is not MISSING
        }

    def _read_all(self) -> None:
        live = self.live
        self.values = {name: live[name].get() for name in self.keys if live[name].is_available()}


def _put_back(entries: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name, value in before.items():
        if value is None:
            entries.pop(name, None)
        else:
            entries[name] = value
