"""The first checkpoint at which something is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint._contract.records import Place, place_of
from milepost.inspect._failures import told_plainly
from milepost.inspect._log import entry_of, tags_by_id
from milepost.inspect._reading import id_of, load, resolve, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost.inspect._database import Database
    from milepost.inspect._records import LogEntry
    from milepost.inspect._refs import Ref


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
        line = _line_to(db.source.line(place.thread_id, place.checkpoint_ns), id_of(saved))

        def holds(at: int) -> bool:
            found = load(db, Place(place.thread_id, place.checkpoint_ns, line[at]))
            return found is not None and bool(predicate(state_of(db, found)))

        first = _halved(len(line), holds) if halving else _first(len(line), holds)
        if first is None:
            return None
        found = load(db, Place(place.thread_id, place.checkpoint_ns, line[first]))
        if found is None:
            return None
        row = db.source.thread_entry(place.thread_id)
        tags = tags_by_id(row.metadata if row else {})
        return entry_of(db, found, None, tags, is_open=row is not None and row.head == line[first])


def _line_to(pairs: Sequence[tuple[str, str | None]], id: str) -> list[str]:
    """The ids from the oldest ancestor to a checkpoint."""
    parents = dict(pairs)
    line: list[str] = []
    at: str | None = id
    while at is not None and at in parents:
        line.append(at)
        at = parents[at]
    return line[::-1]


def _first(count: int, holds: Callable[[int], bool]) -> int | None:
    return next((at for at in range(count) if holds(at)), None)


def _halved(count: int, holds: Callable[[int], bool]) -> int | None:
    if not count or not holds(count - 1):
        return None
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
