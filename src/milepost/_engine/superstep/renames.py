"""Nodes and keys that had other names when a thread was stored.

Loading translates a checkpoint to the present names; the old names are not part of the result. What
a run stores afterwards has the present names only, so a checkpoint never has a channel twice.

A task is called what its trigger is called in the stored checkpoint: its stored writes, its
interrupts and its inner graphs are found under that name. `former_names` has these names until the
run makes its next checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from milepost._engine.superstep.pending_writes import NULL_PREFIX, null_writes
from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.records import (
    fetched_parent,
    has_values,
    outline,
    pending_of,
)
from milepost.constants import BRANCH_TO, JOIN, RESERVED, START, TASKS
from milepost.errors import GraphBuildError
from milepost.types import Send

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Checkpoint, CheckpointTuple, PendingWrite


@record
class Renames:
    """How the names of nodes, keys and channels in a stored checkpoint become present names."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """Old name → present name."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Old name → present name."""
    joins: Mapping[tuple[frozenset[str], str], str] = field(default_factory=dict)
    """Sources and end of each join of the graph → its channel. A stored join is found by these,
    since its name has the sources in the order in which a program listed them."""
    names_with_plus: Collection[str] = ()
    """The names of nodes, present and old, that have a "+", which also separates the sources of a
    join."""
    known_keys: Collection[str] = ()
    """The names of keys of the state, present and old."""

    def with_old_names(self, other: Renames) -> Renames:
        """The same graph, with the old names that another version of it had."""
        with_plus = {*self.names_with_plus, *other.names_with_plus}
        known_keys = {*self.known_keys, *other.keys}
        return Renames(other.nodes, other.keys, self.joins, with_plus, known_keys)

    def node(self, name: str) -> str:
        """The present name of a node."""
        return self.nodes.get(name, name)

    def channel(self, name: str) -> str:
        """The present name of a channel: that of a key, of a node's edges, or of a join.

        A join that the graph does not have keeps its name.
        """
        if name.startswith(BRANCH_TO):
            return f"{BRANCH_TO}{self.node(name.removeprefix(BRANCH_TO))}"
        if name.startswith(JOIN):
            for sources, end in _readings(name, self.names_with_plus):
                wanted = frozenset(map(self.node, sources)), self.node(end)
                if (found := self.joins.get(wanted)) is not None:
                    return found
            return name
        return self.keys.get(name, name)

    def value(self, channel: str, stored: Any) -> Any:
        """A channel's value, or a write to it, under present names.

        A join holds names of nodes. The input is a dict of keys; so is what was sent to a node, if
        it has no other keys than those of the state.
        """
        if channel.startswith(JOIN):
            if isinstance(stored, str):
                return self.node(stored)
            if isinstance(stored, tuple):
                return ({self.node(name) for name in stored[0]}, stored[1])
            return {self.node(name) for name in stored}
        if not self.keys or channel not in (START, TASKS):
            return stored
        if channel == START:
            return self._with_present_keys(stored)
        return self._sent(stored) if isinstance(stored, Send) else [*map(self._sent, stored)]

    def _with_present_keys(self, given: Any) -> Any:
        if not isinstance(given, dict) or self.keys.keys().isdisjoint(given):
            return given
        present = {self.keys[key]: value for key, value in given.items() if key in self.keys}
        return present | {key: value for key, value in given.items() if key not in self.keys}

    def _sent(self, send: Send) -> Send:
        arg = send.arg
        if not isinstance(arg, dict) or not all(key in self.known_keys for key in arg):
            return send  # the program's own: an old key may mean something else there
        return Send(send.node, self._with_present_keys(arg), timeout=send.timeout)

    def apply(self, saved: CheckpointTuple | None) -> CheckpointTuple | None:
        """A loaded checkpoint, if there is one, under the present names."""
        if saved is None or not (self.nodes or self.keys or self.joins):
            return saved
        return cast("CheckpointTuple", RenamedCheckpoint(self, saved))


def nodes_of_join(channel: str, names_with_plus: Collection[str]) -> tuple[list[str], str]:
    """The nodes that a join waits for, and the one that it starts."""
    return next(_readings(channel, names_with_plus))


def _readings(channel: str, names_with_plus: Collection[str]) -> Iterator[tuple[list[str], str]]:
    """The sources and the end that the name of a join may stand for, the likeliest first."""
    sources, _, end = channel.removeprefix(JOIN).rpartition(":")
    for names in _grouped(sources.split("+"), names_with_plus):
        yield names, end


def _grouped(parts: list[str], names_with_plus: Collection[str]) -> Iterator[list[str]]:
    """Ways to put parts of names together; longer names come first."""
    if not parts or not names_with_plus:
        yield parts
        return
    for count in range(len(parts), 0, -1):
        name = "+".join(parts[:count])
        if count == 1 or name in names_with_plus:
            for rest in _grouped(parts[count:], names_with_plus):
                yield [name, *rest]


def node_behind(channel: str) -> str:
    """The node that an edge or a join starts."""
    return channel.rpartition(":")[2]


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
        self.former_names: Mapping[str, str] = {}
        """Present name → stored name, for channels that have another name in the stored checkpoint,
        or in writes of Commands that came since. A run has to store them under the present name."""
        self.changed_seen: set[str] = set()
        """Nodes whose entries of `versions_seen` a run has to store."""
        self.drops_names = False
        """Whether the stored checkpoint has names that this one does not have."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saved, name)

    @property
    def stored(self) -> CheckpointTuple:
        """The checkpoint under the names that it is stored with."""
        return self._saved

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
        return None if pending is None else self._renamed_writes(pending)

    def pending_of(self, owners: str) -> list[PendingWrite]:
        """The stored writes of tasks whose ids begin with `owners`, and perhaps others."""
        return self._renamed_writes(pending_of(self._saved, owners))

    def _renamed_writes(self, pending: Sequence[PendingWrite]) -> list[PendingWrite]:
        renames = self._renames
        return [(id, renames.channel(c), renames.value(c, value)) for id, c, value in pending]

    def written_before(self) -> set[str]:
        """The present names of channels that stored writes have under other names."""
        stored = {channel for _, channel, _ in self._saved.pending_writes or ()}
        return {present for name in stored if (present := self._renames.channel(name)) != name}

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
        renames, versions = self._renames, checkpoint["channel_versions"]
        stored_names = self._stored_names(checkpoint)
        self.former_names = {
            new: old for new, old in self._with_commands(stored_names).items() if new != old
        }
        if not (renames.nodes or renames.keys or self.former_names):
            return checkpoint
        values = {}
        for name, value in checkpoint["channel_values"].items():
            present = renames.channel(name)
            counts = stored_names.get(present) == name if name in versions else True
            if counts:
                values[present] = renames.value(name, value)
        seen = self._seen(checkpoint["versions_seen"])
        self.drops_names = not (
            versions.keys() <= stored_names.keys()
            and checkpoint["versions_seen"].keys() <= seen.keys()
        )
        return {
            **checkpoint,
            "channel_versions": {new: versions[old] for new, old in stored_names.items()},
            "channel_values": values,
            "versions_seen": seen,
        }

    def _stored_names(self, checkpoint: Checkpoint) -> dict[str, str]:
        """Present name → name of the stored channel that counts: the newest of several.

        Of two that are equally new, it is the one with a value, then the one with the present name.
        """
        versions, held = checkpoint["channel_versions"], checkpoint["channel_values"]
        top = max(versions.values(), default=None)
        found: dict[str, str] = {}
        ranks: dict[str, tuple[Any, bool, bool]] = {}
        for name, version in versions.items():
            present, has_value = self._renames.channel(name), name in held
            if (
                name != present
                and has_value
                and version != top
                and passes_for_one_step(name, held[name])
            ):
                continue  # stale: left by a graph that did not have the node
            rank = (version, has_value, name == present)
            if present not in ranks or rank > ranks[present]:
                found[present], ranks[present] = name, rank
        return found

    def _with_commands(self, stored_names: Mapping[str, str]) -> Mapping[str, str]:
        """The same, with channels that only Commands have written, after the checkpoint."""
        if not (self._renames.nodes or self._renames.keys):
            return stored_names
        names = dict(stored_names)
        for channel, _ in chain.from_iterable(null_writes(pending_of(self._saved, NULL_PREFIX))):
            names.setdefault(self._renames.channel(channel), channel)
        return names

    def _seen(self, stored: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        renames = self._renames
        seen: dict[str, dict[str, Any]] = {}
        for name, versions in stored.items():
            node = renames.node(name)
            if node == name and name.startswith("__"):
                seen[name] = versions  # an entry of the engine, not of a node
                continue
            known = dict(seen.get(node, {}))
            for channel, version in versions.items():
                present = renames.channel(channel)
                if present not in known or version > known[present]:
                    known[present] = version
            seen[node] = known
        self.changed_seen = {node for node, known in seen.items() if known != stored.get(node)}
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
    if given is None:
        return {}
    _check_form(kind, given)
    if kind == "key":
        _check_targets(given)
    resolved = {}
    for old in given:
        if old in present:
            raise GraphBuildError(
                f"renamed_{kind}s says that '{old}' has another name now, but the graph has a "
                f"{kind} '{old}': what is stored under that name may be meant for either. Use a "
                "name that no stored thread has."
            )
        name, on_the_way = old, {old}
        while name in given and name not in present:
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


def _check_form(kind: str, given: Mapping[str, str]) -> None:
    """Refuse what is not a mapping of names."""
    if not isinstance(given, Mapping):
        raise GraphBuildError(
            f'renamed_{kind}s is {given!r}: expected a dict, {{"old name": "new name"}}.'
        )
    for old, new in given.items():
        for name in (old, new):
            if not isinstance(name, str) or not name:
                raise GraphBuildError(
                    f"renamed_{kind}s has {name!r}, which is not the name of a {kind}."
                )
        if old in RESERVED:
            raise GraphBuildError(
                f"renamed_{kind}s has '{old}', which no {kind} of a graph was ever called."
            )


def _check_targets(given: Mapping[str, str]) -> None:
    """Refuse two keys that become one: a thread has a value of each, and one would be lost."""
    olds: dict[str, str] = {}
    for old, new in given.items():
        if new in olds:
            raise GraphBuildError(
                f"renamed_keys says that both '{olds[new]}' and '{old}' are called '{new}' now: "
                "one of their values would be lost. If the key had these names one after the "
                f"other, say so: {{'{olds[new]}': '{old}', '{old}': '{new}'}}."
            )
        olds[new] = old
