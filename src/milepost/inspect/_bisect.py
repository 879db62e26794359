"""The first checkpoint at which something is true."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from milepost.checkpoint._contract.records import place_of
from milepost.inspect._errors import told_plainly
from milepost.inspect._log import entry_of
from milepost.inspect._reading import id_of, line_to, load, state_of
from milepost.inspect._refs import resolve
from milepost.inspect._tag_metadata import tags_by_id

if TYPE_CHECKING:
    from collections.abc import Callable

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
        is_open = row is not None and row.head == first
        return entry_of(db, found, None, tags, is_open=is_open, nodes=set())
