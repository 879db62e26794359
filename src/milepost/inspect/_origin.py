"""Since when something is so: blame for the parts of a value, bisect for a condition."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.checkpoint._contract.records import outline, place_of
from milepost.constants import ROOT, START
from milepost.inspect._data import as_data, members, part_of
from milepost.inspect._diff import aligned, same
from milepost.inspect._errors import StateNotFoundError, told_plainly
from milepost.inspect._log import entry_of
from milepost.inspect._reading import (
    NO_VALUES,
    ancestors,
    id_of,
    line_to,
    load,
    state_of,
)
from milepost.inspect._records import Blame, Path
from milepost.inspect._refs import resolve, tags_by_id
from milepost.inspect._tasks import writes_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from milepost.checkpoint._contract.records import CheckpointTuple
    from milepost.inspect._database import Database
    from milepost.inspect._records import LogEntry
    from milepost.inspect._refs import Ref

_NOTHING: Any = object()
_Writing: TypeAlias = "tuple[CheckpointTuple, CheckpointTuple | None, Any]"
"""The checkpoint that a step made, its parent, and the value at a path in the parent."""


def blame(db: Database, ref: Ref, path: Path) -> list[Blame]:
    """For each part of the value at `path`: the checkpoint since which it is what it is.

    The parts of a list are its members, those of a dict or an object its keys and fields; anything
    else is one part. A part that was moved in its list by what came before or after it is
    the same part.

    Args:
        db: The database.
        ref: The checkpoint.
        path: Leads to the value: keys and numbers.

    Examples:
        >>> [(part.nodes, part.step) for part in inspect.blame(db, Ref.parse("trip"), ("city",))]
        [(('find',), 1)]
    """
    if not path:
        raise StateNotFoundError("Say of which key: `milepost blame THREAD key`.")
    saved = resolve(db, ref)
    value = _value(db, saved, path)
    if value is _NOTHING:
        part_of(state_of(db, saved), path)  # says up to where there is something
        raise StateNotFoundError(f"There is nothing at '{'.'.join(map(str, path))}'.")
    parts = members(value)
    if not parts:
        return _undivided(db, saved, path, value)
    if isinstance(value, (list, tuple)):
        return _members(db, saved, path, list(value))
    return _fields(db, saved, path, parts)


def _value(db: Database, saved: CheckpointTuple, path: Path) -> Any:
    """The value at a path; only its key of the state is read."""
    state = state_of(db, saved, lambda name: name in (str(path[0]), ROOT))
    try:
        return part_of(state, path)
    except StateNotFoundError:
        return _NOTHING


def _version(saved: CheckpointTuple, key: str) -> Any:
    versions = outline(saved, NO_VALUES)["channel_versions"]
    return versions.get(key, versions.get(ROOT))


def _writings(db: Database, saved: CheckpointTuple, path: Path) -> Iterator[_Writing]:
    """Where the key of a path was written on the way to a checkpoint, newest first."""
    key = str(path[0])
    child = saved
    version = _version(child, key)
    for parent in ancestors(db, saved):
        older = _version(parent, key)
        if older != version:
            yield child, parent, _value(db, parent, path)
            version = older
        child = parent
    yield child, None, _NOTHING


def _undivided(db: Database, saved: CheckpointTuple, path: Path, value: Any) -> list[Blame]:
    for child, parent, before in _writings(db, saved, path):
        if before is _NOTHING or not same(before, value):
            return [_blamed(db, child, parent, path, value)]
    return []


def _fields(db: Database, saved: CheckpointTuple, path: Path, parts: dict[Any, Any]) -> list[Blame]:
    found: dict[Any, Blame] = {}
    left = dict(parts)
    for child, parent, before in _writings(db, saved, path):
        old = {} if before is _NOTHING else members(before) or {}
        for name in list(left):
            if name not in old or not same(old[name], left[name]):
                step = name if isinstance(name, (str, int)) else str(name)
                found[name] = _blamed(db, child, parent, (*path, step), left.pop(name))
        if not left:
            break
    return [found[name] for name in parts if name in found]


def _members(db: Database, saved: CheckpointTuple, path: Path, value: list[Any]) -> list[Blame]:
    found: dict[int, Blame] = {}
    current = value
    places = {at: at for at in range(len(value))}
    """Where each member that is still to be explained is in `current`."""
    for child, parent, before in _writings(db, saved, path):
        old = list(before) if isinstance(before, (list, tuple)) else []
        kept = {
            new: before
            for before, new in aligned(old, current)
            if before is not None and new is not None and same(old[before], current[new])
        }
        moved: dict[int, int] = {}
        for at, place in places.items():
            if place in kept:
                moved[at] = kept[place]
            else:
                found[at] = _blamed(db, child, parent, (*path, at), value[at])
        places, current = moved, old
        if not places:
            break
    return [found[at] for at in sorted(found)]


def _blamed(
    db: Database,
    child: CheckpointTuple,
    parent: CheckpointTuple | None,
    path: Path,
    value: Any,
) -> Blame:
    writes = writes_behind(db, child, parent)
    nodes = [node for node, keys in writes.items() if str(path[0]) in keys or ROOT in keys]
    if not nodes and child.metadata.get("source") == "input":
        nodes = [START]
    run_id = child.metadata.get("run_id")
    return Blame(
        path=path,
        checkpoint_id=id_of(child),
        step=child.metadata.get("step"),
        nodes=tuple(nodes),
        run_id=None if run_id is None else str(run_id),
        created_at=outline(child, NO_VALUES)["ts"] or None,
        value=as_data(value),
    )


def bisect(
    db: Database, ref: Ref, predicate: Callable[[Any], bool], *, halving: bool = False
) -> LogEntry | None:
    """The first checkpoint on the line to `ref` whose state fulfils a condition; None if none does.

    Args:
        db: The database.
        ref: The last checkpoint of the line.
        predicate: Says of a state whether it fulfils the condition.
        halving: Assume that the predicate stays true once it is: then a few states of a long thread
            are enough. Otherwise every state from the oldest on is looked at.

    Examples:
        >>> inspect.bisect(db, Ref.parse("trip"), lambda state: "city" in state).step
        1
    """
    saved = resolve(db, ref)
    place = place_of(saved.config)
    with told_plainly(f"thread '{place.thread_id}'"):
        line = list(line_to(db, place, id_of(saved)))[::-1]

        def holds(id: str) -> bool:
            found = load(db, place._replace(checkpoint_id=id))
            return found is not None and bool(predicate(state_of(db, found)))

        if halving:
            line = line[bisect_left(line, True, key=holds) :]
            first = line[0] if line else None
        else:
            first = next(filter(holds, line), None)
        found = None if first is None else load(db, place._replace(checkpoint_id=first))
        if found is None:
            return None
        row = db.source.thread_entry(place.thread_id)
        tags = tags_by_id(row.metadata if row else {})
        is_latest = row is not None and row.head == first
        return entry_of(db, found, None, tags, is_latest=is_latest, nodes=set())
