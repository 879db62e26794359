"""Nodes and keys that had other names when a thread was stored.

Loading translates a checkpoint to the present names. Stored rows keep the old names: a renamed
channel has both names, with the same version, until a step writes to it under the new name. A task
that was planned under the old name of its node keeps that name in its id, so its stored writes, its
interrupts and its inner graphs are found.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.partial_reads import fetched_parent, has_values, outline
from milepost.constants import BRANCH_TO, JOIN
from milepost.errors import GraphBuildError

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Checkpoint, CheckpointTuple, PendingWrite


@record
class Renames:
    """Old name → present name, for the nodes and keys of a graph."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)

    def node(self, name: str) -> str:
        """The present name of a node."""
        return self.nodes.get(name, name)

    def channel(self, name: str) -> str:
        """The present name of a channel: that of a key, of a node's edges, or of a join."""
        if name.startswith(BRANCH_TO):
            return f"{BRANCH_TO}{self.node(name.removeprefix(BRANCH_TO))}"
        if name.startswith(JOIN):
            sources, end = nodes_of_join(name)
            return f"{JOIN}{'+'.join(map(self.node, sources))}:{self.node(end)}"
        return self.keys.get(name, name)

    def value(self, channel: str, stored: Any) -> Any:
        """A channel's value, or a write to it, under present names: a join holds names of nodes."""
        if not channel.startswith(JOIN):
            return stored
        if isinstance(stored, str):
            return self.node(stored)
        if isinstance(stored, tuple):
            return ({self.node(name) for name in stored[0]}, stored[1])
        return {self.node(name) for name in stored}

    def apply(self, saved: CheckpointTuple | None) -> CheckpointTuple | None:
        """A loaded checkpoint, if there is one, under the present names."""
        if saved is None or not (self.nodes or self.keys):
            return saved
        return cast("CheckpointTuple", RenamedCheckpoint(self, saved))

    def former_name(self, versions: Mapping[str, Any], triggers: Iterable[str], node: str) -> str:
        """The name that a node had when it was triggered, under which its task was planned."""
        for name, version in versions.items():
            present = self.channel(name)
            if present != name and present in triggers and versions.get(present) == version:
                return node_behind(name)
        return node


def nodes_of_join(channel: str) -> tuple[list[str], str]:
    """The nodes that a join waits for, and the one that it starts."""
    sources, _, end = channel.removeprefix(JOIN).rpartition(":")
    return sources.split("+"), end


def node_behind(channel: str) -> str:
    """The node that an edge or a join starts."""
    if channel.startswith(BRANCH_TO):
        return channel.removeprefix(BRANCH_TO)
    return nodes_of_join(channel)[1]


def passes_for_one_step(channel: str, value: Any) -> bool:
    """Whether a channel holds its value for one step: the edges of nodes that are not deferred."""
    return channel.startswith(BRANCH_TO) and not isinstance(value, tuple)


class RenamedCheckpoint:
    """A checkpoint under the present names, with the fields of a CheckpointTuple.

    Values are read on access, as in the record that the saver returned.
    """

    def __init__(self, renames: Renames, saved: CheckpointTuple) -> None:
        self._renames = renames
        self._saved = saved
        self._checkpoint: Checkpoint | None = None
        self.former_names: dict[str, str] = {}
        """Present name → old name, for channels that a run has to store under the present name."""
        self.changed_seen: set[str] = set()
        """Nodes whose entries of `versions_seen` a run has to store."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saved, name)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint with all its values."""
        if self._checkpoint is None:
            self._checkpoint = self._renamed(self._saved.checkpoint)
        return self._checkpoint

    @property
    def pending_writes(self) -> list[PendingWrite] | None:
        """The stored writes under the present names; task ids do not change."""
        pending = self._saved.pending_writes
        if pending is None:
            return None
        renames = self._renames
        return [(id, renames.channel(c), renames.value(c, value)) for id, c, value in pending]

    def pending_of(self, owners: str) -> list[PendingWrite] | None:  # noqa: ARG002
        """All pending writes: callers filter them by owner again."""
        return self.pending_writes

    @property
    def parent(self) -> Any:
        """The parent checkpoint, if the saver fetched it too."""
        return self._renames.apply(fetched_parent(self._saved))

    def has(self, channels: Container[str]) -> bool:
        """Whether the saver has fetched the values of these channels."""
        return has_values(self._saved, _AndOld(channels, self._renames))

    def outline(self, channels: Container[str]) -> Checkpoint:
        """The checkpoint with the values of these channels, and perhaps others."""
        if self._checkpoint is not None:
            return self._checkpoint
        return self._renamed(outline(self._saved, _AndOld(channels, self._renames)))

    def _renamed(self, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint under present names; if a channel is stored under both, the newer counts."""
        renames = self._renames
        versions = dict(checkpoint["channel_versions"])
        values = dict(checkpoint["channel_values"])
        top = max(versions.values(), default=None)
        for old, version in checkpoint["channel_versions"].items():
            new = renames.channel(old)
            if new == old:
                continue
            has_value = old in values
            value = values.pop(old, None)
            if has_value and passes_for_one_step(old, value) and version != top:
                continue  # stale: left by a graph that did not have the node
            if new not in versions or version > versions[new]:
                versions[new] = version
                values.pop(new, None)
                if has_value:
                    values[new] = renames.value(old, value)
                self.former_names[new] = old
            elif has_value and new in values and self.former_names.get(new, old) != old:
                values[old] = value  # two nodes that became one both wait: loading reports it
        return {
            **checkpoint,
            "channel_versions": versions,
            "channel_values": values,
            "versions_seen": self._seen(checkpoint["versions_seen"]),
        }

    def _seen(self, stored: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        renames = self._renames
        seen = dict(stored)
        for old, versions in stored.items():
            if old.startswith("__"):
                continue  # an entry of the engine, not of a node
            node = renames.node(old)
            merged = dict(seen.get(node, {}))
            for channel, version in versions.items():
                present = renames.channel(channel)
                if present not in merged or version > merged[present]:
                    merged[present] = version
            if merged != seen.get(node):
                seen[node] = merged
                self.changed_seen.add(node)
        return seen


def as_renamed(saved: object) -> RenamedCheckpoint | None:
    """A loaded checkpoint as RenamedCheckpoint; None if it was not translated."""
    return saved if isinstance(saved, RenamedCheckpoint) else None


class _AndOld(Container[str]):
    """Names of channels, together with their old names."""

    def __init__(self, names: Container[str], renames: Renames) -> None:
        self._names = names
        self._renames = renames

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._renames.channel(name) in self._names


def checked_renames(
    kind: str, given: Mapping[str, str] | None, present: Collection[str]
) -> dict[str, str]:
    """Old name → present name, with chains of renames followed; raises GraphBuildError."""
    resolved = {}
    for old in given or {}:
        if old in present:
            raise GraphBuildError(
                f"renamed_{kind}s says that '{old}' has another name now, but the graph has a "
                f"{kind} '{old}': what is stored under that name may be meant for either. Use a "
                "name that was never used; two names are swapped in two deploys."
            )
        name, on_the_way = old, {old}
        while given is not None and name in given and name not in present:
            name = given[name]
            if name in on_the_way:
                raise GraphBuildError(f"renamed_{kind}s leads from '{old}' in a circle.")
            on_the_way.add(name)
        if name not in present:
            raise GraphBuildError(
                f"renamed_{kind}s says that '{old}' is called '{name}' now, which is not a {kind} "
                f"of the graph. It has: {', '.join(sorted(present))}."
            )
        resolved[old] = name
    return resolved
