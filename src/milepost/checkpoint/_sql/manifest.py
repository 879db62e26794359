"""The manifest of a checkpoint: everything in a checkpoint except its large values.

A manifest holds the versions of all channels, the versions that each node has seen, and the values
that are too small for a row of their own. The manifest of a step differs from its parent's in a few
channels. So most manifests are stored as changes to the parent's, and some complete, in between.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import ormsgpack

from milepost._internal.dataclass_tools import record
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from milepost._db.dialect import Bounds
    from milepost.checkpoint._contract.step_saver import NewCheckpoint
    from milepost.checkpoint._delta.diff import Buffer
    from milepost.checkpoint._sql.cache import CachedManifest

Inline: TypeAlias = Any
"""EMPTIED, OWN_ROW, INHERITED, or a list of kind and bytes."""
EMPTIED: Final = None
"""The channel has no value."""
OWN_ROW: Final = False
"""The value of the channel has a row of its own."""
INHERITED: Final = True
"""The entry is in the parent's manifest, which is not cached. Filled in by the commit."""

_MAX_CHAIN_ROWS: Final = 256
"""Rows of a chain after which a complete manifest is stored, even a large one."""
_SHORT_THREAD_STEPS: Final = 32
"""The first steps of a thread, whose manifests are all complete."""
_FEW_CHANNELS: Final = 12
"""At most this many channels, for that rule to hold."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@record(frozen=False)
class Manifest:
    """The versions of channels, what each node has seen, and the small values."""

    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    inline: Mapping[str, Inline]

    def large(self) -> list[tuple[str, str]]:
        """The channels and versions that have rows of their own."""
        versions = self.versions
        found = []
        for channel, held in self.inline.items():
            if held is OWN_ROW and channel in versions:
                found.append((channel, str(versions[channel])))
        return found

    def merged(self, changes: Manifest) -> Manifest:
        """This manifest with changes."""
        return Manifest(
            {**self.versions, **changes.versions},
            {**self.seen, **changes.seen},
            {**self.inline, **changes.inline},
        )


def changes(
    base: Manifest,
    versions: Mapping[str, Any],
    seen: Mapping[str, Mapping[str, Any]],
    held: Mapping[str, Inline],
    seen_by: Collection[str] | None,
) -> Manifest | None:
    """The changes that make a new manifest out of `base`; None if an entry was taken away.

    `versions` and `seen` are those of the whole new manifest. `held` has the channels with a new
    version. `seen_by` has the nodes that have seen new versions, if they are known.
    """
    changed, inline, seen_changes = {}, {}, {}
    gone, unseen = len(base.versions) - len(versions), len(base.seen) - len(seen)
    for name, now in held.items():
        changed[name] = versions[name]
        if name not in base.versions:
            gone += 1
            inline[name] = now
        elif base.inline.get(name) != now:
            inline[name] = now
    for node in seen if seen_by is None else seen_by:
        seen_now = seen[node]
        before = base.seen.get(node)
        if before is None:
            unseen += 1
            seen_changes[node] = seen_now
        elif before is not seen_now and before != seen_now:
            seen_changes[node] = seen_now
    return None if gone or unseen else Manifest(changed, seen_changes, inline)


class ParentWrites(NamedTuple):
    """What a manifest says of the writes at its parent, so that a reader notices missing ones."""

    inline: bool = False
    """Whether the manifest's own row holds inline writes."""
    rows: int = 0
    """The parent has at least this many rows of writes."""


NO_WRITES: Final = ParentWrites()
_INLINE_WRITES: Final = ParentWrites(inline=True)


def pack(stamp: Sequence[Any], manifest: Manifest, writes: ParentWrites = NO_WRITES) -> bytes:
    """The stored form of a manifest, or of changes to one, before sealing."""
    format, time, updated = stamp
    if updated is not None and updated == sorted(manifest.versions):
        updated = True  # mostly so in changes, which name only changed channels
    # Grouped by version, since all channels that a step changes get the same one.
    groups: dict[Any, list[Any]] = {}
    for name, version in manifest.versions.items():
        groups.setdefault(version, [version]).append(name)
    parts = [
        format,
        _to_micros(time),
        updated,
        list(groups.values()),
        manifest.seen,
        manifest.inline,
    ]
    packed = ormsgpack.packb(parts)
    return packed if writes is NO_WRITES else with_writes(packed, writes)


def with_writes(packed: bytes, writes: ParentWrites) -> bytes:
    """Add `writes` to a packed manifest, at the end of its msgpack array."""
    if writes.rows:
        return b"\x98%b%b" % (packed[1:], ormsgpack.packb([*writes])[1:])
    return b"\x97%b\xc3" % packed[1:] if writes.inline else packed


Unpacked: TypeAlias = (
    "tuple[Any, str | int, Any, ParentWrites, dict[str, Any], dict[str, Any], dict[str, Any]]"
)
"""What `unpack` returns. The time and the updated channels are still packed: see `stamp`."""


def unpack(data: Buffer) -> Unpacked:
    """A manifest, or changes to one: format, time, updated channels, writes at the parent,
    versions, seen, inline."""
    try:
        format, time, updated, grouped, seen, inline, *parent_writes = ormsgpack.unpackb(data)
        if not parent_writes:
            writes = NO_WRITES
        elif len(parent_writes) == 1 and parent_writes[0] is True:
            writes = _INLINE_WRITES
        else:
            writes = ParentWrites(*parent_writes)
        versions = {}
        for version, *names in grouped:
            for name in names:
                versions[name] = version
        if type(seen) is not dict or type(inline) is not dict:
            raise ValueError("it has another form")
        if parent_writes and (type(writes.inline) is not bool or type(writes.rows) is not int):
            raise ValueError("it has another form")
        return format, time, updated, writes, versions, seen, inline
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"a stored manifest does not decode: {error}") from error


def stamp(unpacked: Unpacked) -> tuple[Any, str, Any]:
    """Format, time and updated channels: the part of a manifest that is never inherited."""
    format, time, updated, _, versions, _, _ = unpacked
    return format, _to_text(time), sorted(versions) if updated is True else updated


def _to_micros(time: datetime | str) -> str | int:
    """A time in microseconds, if `_to_text` gives the same text again."""
    if isinstance(time, datetime):
        return (time - _EPOCH) // _MICROSECOND
    try:
        moment = datetime.fromisoformat(time)
    except (ValueError, TypeError):
        return time
    is_exact = moment.tzinfo is UTC and moment.isoformat() == time
    return (moment - _EPOCH) // _MICROSECOND if is_exact else time


def _to_text(time: str | int) -> str:
    return time if isinstance(time, str) else (_EPOCH + time * _MICROSECOND).isoformat()


def next_manifest(
    base: CachedManifest, new: NewCheckpoint, held: Mapping[str, Inline], most: Bounds
) -> tuple[Manifest, Manifest | None]:
    """The manifest after `base`, and the changes to it; None if it is to be stored complete."""
    # No copies of the entries in `seen`: a node's entry is replaced when it runs, never changed.
    versions, seen = new.versions, new.versions_seen
    step = new.metadata.get("step")
    # Most threads are short and have few channels. For a short thread, a chain of manifests takes
    # longer to read than all values, and a complete manifest is only some hundred bytes longer.
    is_short = isinstance(step, int) and step < _SHORT_THREAD_STEPS
    is_cheap = is_short and len(base.manifest.versions) <= _FEW_CHANNELS
    is_chain_full = base.rows >= most.frames and (
        base.rows >= _MAX_CHAIN_ROWS or base.spent >= base.size
    )
    if not (is_cheap or is_chain_full):
        found = changes(base.manifest, versions, seen, held, new.seen)
        if found is not None:
            return base.manifest.merged(found), found
    return Manifest(dict(versions), dict(seen), {**base.manifest.inline, **held}), None
