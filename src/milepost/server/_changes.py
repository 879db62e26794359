"""Differences and authorship as the page is shown them: values that are too large are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milepost import inspect
from milepost.checkpoint._contract.records import place_of
from milepost.inspect.parts import limited, load, parent_of, resolve, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.inspect import Blame, Change, Database, Path, Ref


def step_changes(database: Database, ref: Ref) -> list[Change]:
    """What a step has changed: a state against its parent's, or against nothing."""
    saved = resolve(database, ref)
    parent_id = parent_of(saved)
    parent = None
    if parent_id is not None:
        parent = load(database, place_of(saved.config)._replace(checkpoint_id=parent_id))
    if parent is None:
        return inspect.compare({}, state_of(database, saved))
    return inspect.changes(database, parent, saved)


def bounded_changes(changes: Sequence[Change], limit: int) -> list[Change]:
    """Changes whose values are bounded; of long texts the lines stay, if they are not longer."""
    return [
        replace(
            change,
            before=_bounded(change.before, change.path, limit),
            after=_bounded(change.after, change.path, limit),
            lines=change.lines if _size(change.lines) <= limit else None,
        )
        for change in changes
    ]


def bounded_blames(parts: Sequence[Blame], limit: int) -> list[Blame]:
    """Parts whose values are bounded."""
    return [replace(part, value=_bounded(part.value, part.path, limit)) for part in parts]


def _bounded(data: Any, path: Path, limit: int) -> Any:
    return limited(data, limit, path or ("",))[0]


def _size(lines: Sequence[str] | None) -> int:
    return sum(map(len, lines or ()))
