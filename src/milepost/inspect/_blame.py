"""Who wrote a value: for each part of it, the step that made it what it is."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from milepost.constants import ROOT, START
from milepost.inspect._data import as_data, members, part_of
from milepost.inspect._diff import aligned, same
from milepost.inspect._errors import StateNotFoundError
from milepost.inspect._reading import (
    NO_VALUES,
    ancestors,
    id_of,
    outline,
    state_of,
)
from milepost.inspect._records import Blame, Path
from milepost.inspect._refs import resolve
from milepost.inspect._tasks import writes_behind

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import CheckpointTuple
    from milepost.inspect._database import Database
    from milepost.inspect._refs import Ref

_NOTHING: Any = object()


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
    key = str(path[0])
    whole = _value(db, saved, path, key)
    if whole is _NOTHING:
        part_of(state_of(db, saved), path)  # says up to where there is something
        raise StateNotFoundError(f"There is nothing at '{'.'.join(map(str, path))}'.")
    parts = members(whole)
    if not parts:
        return _whole(db, saved, path, key, whole)
    if isinstance(whole, (list, tuple)):
        return _members(db, saved, path, key, list(whole))
    return _fields(db, saved, path, key, parts)


def _value(db: Database, saved: CheckpointTuple, path: Path, key: str) -> Any:
    """The value at a path, of which only one key is read."""
    state = state_of(db, saved, lambda name: name in (key, ROOT))
    try:
        return part_of(state, path)
    except StateNotFoundError:
        return _NOTHING


def _versions(saved: CheckpointTuple, key: str) -> Any:
    versions = outline(saved, NO_VALUES)["channel_versions"]
    return versions.get(key, versions.get(ROOT))


def _line(db: Database, saved: CheckpointTuple, path: Path, key: str) -> Any:
    """Pairs of a checkpoint and its parent between which the key was written, newest first."""
    child = saved
    version = _versions(child, key)
    for parent in chain(ancestors(db, saved), (None,)):
        older = None if parent is None else _versions(parent, key)
        if parent is None or older != version:
            value = _NOTHING if parent is None else _value(db, parent, path, key)
            yield child, parent, value
            version = older
        if parent is not None:
            child = parent


def _whole(db: Database, saved: CheckpointTuple, path: Path, key: str, value: Any) -> list[Blame]:
    for child, parent, before in _line(db, saved, path, key):
        if before is _NOTHING or not same(before, value):
            return [_made(db, child, parent, path, key, value)]
    return []


def _fields(
    db: Database, saved: CheckpointTuple, path: Path, key: str, parts: dict[Any, Any]
) -> list[Blame]:
    found: dict[Any, Blame] = {}
    left = dict(parts)
    for child, parent, before in _line(db, saved, path, key):
        old = {} if before is _NOTHING else members(before) or {}
        for name in list(left):
            if name not in old or not same(old[name], left[name]):
                step = name if isinstance(name, (str, int)) else str(name)
                value = left.pop(name)
                found[name] = _made(db, child, parent, (*path, step), key, value)
        if not left:
            break
    return [found[name] for name in parts if name in found]


def _members(
    db: Database, saved: CheckpointTuple, path: Path, key: str, value: list[Any]
) -> list[Blame]:
    found: dict[int, Blame] = {}
    current = value
    places = {at: at for at in range(len(value))}
    """Where each member that is still to be explained is in `current`."""
    for child, parent, before in _line(db, saved, path, key):
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
                found[at] = _made(db, child, parent, (*path, at), key, value[at])
        places, current = moved, old
        if not places:
            break
    return [found[at] for at in sorted(found)]


def _made(
    db: Database,
    child: CheckpointTuple,
    parent: CheckpointTuple | None,
    path: Path,
    key: str,
    value: Any,
) -> Blame:
    writes = writes_behind(db, child, parent)
    nodes = [node for node, keys in writes.items() if key in keys or ROOT in keys]
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
