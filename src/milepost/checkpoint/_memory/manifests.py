"""Manifests: what a checkpoint says besides its values, packed into one string of bytes.

A manifest holds the versions of channels and the versions that nodes have seen. Most manifests hold
only what is new since the manifest that they build on; now and then one holds everything. So a step
costs what it changed, and the garbage collector has no objects to walk through.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import ormsgpack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from milepost.checkpoint._contract.records import ChannelVersions
    from milepost.checkpoint._contract.step_saver import NewCheckpoint
    from milepost.checkpoint._delta.encode import Typed

_MAX_LEVELS: Final = 64
"""So many manifests may build on each other before one holds everything. If there are fewer
channels, as many as channels: a complete manifest costs little then, and reading one costs its
levels."""

packb = ormsgpack.packb
unpackb = ormsgpack.unpackb


class StoredCheckpoint(NamedTuple):
    id: str
    parent_id: str | None
    manifest: bytes
    metadata: Typed
    base: StoredCheckpoint | None
    """The checkpoint that the manifest builds on; None if the manifest holds everything."""
    level: int
    """How many manifests this one builds on."""


class Manifest(NamedTuple):
    """A manifest, put together again."""

    v: int
    ts: str
    updated: list[str] | None
    versions: ChannelVersions
    seen: dict[str, ChannelVersions]


def stored(
    new: NewCheckpoint, parent_id: str | None, metadata: Typed, base: StoredCheckpoint | None
) -> StoredCheckpoint:
    """A checkpoint that differs from `base` in the channels and nodes that it names as new."""
    versions, versions_seen = new.versions, new.versions_seen
    changed: Collection[str] = new.changed
    seen: Collection[str] | None = new.seen
    level = 0
    if seen is None or base is None or base.level >= _MAX_LEVELS or base.level >= len(versions):
        base, changed, seen = None, versions, versions_seen
    else:
        level = base.level + 1
    names = [*changed]
    named = [versions[name] for name in names]
    if named and named.count(named[0]) == len(named):
        del named[1:]  # mostly all channels of a step get the same version
    sights = {node: versions_seen[node] for node in seen}
    # A moment is packed as the text that `isoformat` gives.
    manifest = packb((new.format, new.made_at, new.updated, names, named, sights))
    return StoredCheckpoint(new.id, parent_id, manifest, metadata, base, level)


def read(checkpoint: StoredCheckpoint) -> Manifest:
    """The whole manifest of a checkpoint."""
    line = [checkpoint]
    while (below := line[-1].base) is not None:
        line.append(below)
    versions: ChannelVersions = {}
    seen: dict[str, ChannelVersions] = {}
    for one in reversed(line):
        v, ts, updated, names, new, seen_changes = unpackb(one.manifest)
        versions.update(_paired(names, new))
        seen.update(seen_changes)
    return Manifest(v, ts, updated, versions, seen)


def _paired(names: list[str], versions: list[Any]) -> Iterator[tuple[str, Any]]:
    return zip(names, versions if len(versions) != 1 else repeat(versions[0]), strict=False)


LookupCache: TypeAlias = dict[int, Any]
"""Results for checkpoints by their identity, so that each manifest is unpacked once."""


def version_in(checkpoint: StoredCheckpoint, channel: str, cache: LookupCache | None = None) -> Any:
    """The version that a channel has in a checkpoint; None if it has none."""

    def named(manifest: bytes) -> Any:
        _, _, _, names, versions, _ = unpackb(manifest)
        if channel not in names:
            return None
        return versions[names.index(channel) if len(versions) > 1 else 0]

    return _nearest(checkpoint, named, {} if cache is None else cache)


def seen_in(checkpoint: StoredCheckpoint, node: str, cache: LookupCache) -> ChannelVersions:
    """The versions that a node has seen, as of a checkpoint."""

    def sight(manifest: bytes) -> Any:
        return unpackb(manifest)[5].get(node)

    return _nearest(checkpoint, sight, cache) or {}


def _nearest(checkpoint: StoredCheckpoint, find: Callable[[bytes], Any], cache: LookupCache) -> Any:
    """The first result of `find` in a manifest and those that it builds on; None without one."""
    found = None
    line: list[StoredCheckpoint] = []
    at: StoredCheckpoint | None = checkpoint
    while at is not None and found is None:
        if id(at) in cache:
            found = cache[id(at)]
            break
        line.append(at)
        found = find(at.manifest)
        at = at.base
    for one in line:
        cache[id(one)] = found
    return found


def format_of(checkpoint: StoredCheckpoint) -> int:
    """The format of a checkpoint."""
    found: int = unpackb(checkpoint.manifest)[0]
    return found


def versions_named(checkpoint: StoredCheckpoint) -> Iterator[tuple[str, Any]]:
    """The channels and versions in a manifest itself, without those that it builds on."""
    _, _, _, names, versions, _ = unpackb(checkpoint.manifest)
    return _paired(names, versions)


def versions_used(checkpoints: Iterable[StoredCheckpoint]) -> set[tuple[str, Any]]:
    """All channels and versions of some checkpoints, from their complete manifests."""
    given = {id(one): one for one in checkpoints}
    used: set[tuple[str, Any]] = set()
    for one in given.values():
        if one.base is None or id(one.base) in given:
            used.update(versions_named(one))  # `base` adds the others
        else:
            used.update(read(one).versions.items())
    return used


def first(checkpoint: StoredCheckpoint) -> StoredCheckpoint:
    """The same checkpoint without a parent, and with a complete manifest."""
    checkpoint = checkpoint._replace(parent_id=None)
    if checkpoint.base is None:
        return checkpoint
    v, ts, updated, versions, seen = read(checkpoint)
    manifest = packb((v, ts, updated, [*versions], [*versions.values()], seen))
    return checkpoint._replace(manifest=manifest, base=None, level=0)
