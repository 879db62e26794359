"""Three-way merge of two branches, through the reducers of their graph.

For each key there are three values: at the common ancestor, on the branch that is merged into
("ours"), and on the other ("theirs"). A key that only one branch changed gets that branch's value.
Where both did, a key with a reducer takes what the nodes of the other branch wrote, one write after
the other, as if they had run here; a key without one is a conflict.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial, reduce
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from milepost.channels.binop import overwrite_of
from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.checkpoint.base import writes_leading_to
from milepost.inspect._data import as_data
from milepost.inspect._diff import common_ends, same
from milepost.inspect._errors import InspectError, MergeConflictError, told_plainly
from milepost.inspect._graphs import attached, records_of, refusing
from milepost.inspect._reading import id_of, is_internal, line_to
from milepost.inspect._refs import Ref, resolve
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from milepost.inspect._database import Database

Side = Literal["ours", "theirs"]


class Merged(NamedTuple):
    """The result of a merge, or of a dry run of one.

    Examples:
        >>> ours = inspect.fork(db, Ref.parse("trip@~1"), {"n": 7}, graph=graph)
        >>> theirs = inspect.fork(db, Ref.parse("trip@~2"), {"city": "Rome"}, graph=graph)
        >>> merged = inspect.merge(db, graph, ours, theirs, dry_run=True, prefer={"city": "theirs"})
        >>> merged.taken
        ['city']
    """

    ref: Ref | None
    """The new checkpoint; None for a dry run, or if there was nothing to merge."""
    base: Ref
    """The common ancestor."""
    taken: Sequence[str]
    """Keys that have the other branch's values."""
    combined: Sequence[str]
    """Keys on which a reducer brought both together."""
    values: Mapping[str, Any]
    """As data: of keys that are taken their values, of combined ones the writes that were added."""


def merge(
    db: Database,
    graph: Any,
    ours: Ref,
    theirs: Ref,
    *,
    prefer: Mapping[str, Side] | None = None,
    as_node: str | None = None,
    dry_run: bool = False,
) -> Merged:
    """Bring what one branch changed since the common ancestor to another, as one new checkpoint.

    Args:
        db: The database.
        graph: The compiled graph, whose reducers combine what both changed.
        ours: The checkpoint that the new one follows.
        theirs: The other branch.
        prefer: Decides conflicts by key: "ours" or "theirs".
        as_node: The node that the new checkpoint counts as written by; by default the one that ran
            last at `ours`.
        dry_run: Only say what would come of it.

    Raises:
        MergeConflictError: Names the keys that both changed and no reducer brings together.

    Examples:
        >>> ours = inspect.fork(db, Ref.parse("trip@~1"), {"n": 7}, graph=graph)
        >>> theirs = inspect.fork(db, Ref.parse("trip@~2"), {"city": "Rome"}, graph=graph)
        >>> merged = inspect.merge(db, graph, ours, theirs, prefer={"city": "theirs"})
        >>> inspect.show(db, merged.ref).values
        {'city': 'Rome', 'n': 7}
    """
    if not dry_run:
        db.check_writable("merge")
    a, b = resolve(db, ours), resolve(db, theirs)
    if place_of(a.config)[:2] != place_of(b.config)[:2]:
        raise InspectError("Only two branches of one thread have a common ancestor to merge from.")
    place = place_of(a.config)
    with told_plainly(f"thread '{place.thread_id}'"):
        base_id, line = _lines(db, a, b)
        plan = _Plan(graph, prefer or {})
        graph = attached(graph, db)
        saver: Any = db.saver
        base, one, other = (
            _values(saver, place._replace(checkpoint_id=id)) for id in (base_id, id_of(a), id_of(b))
        )
        for key in sorted({*base, *one, *other}):
            before, mine, yours = (state.get(key, MISSING) for state in (base, one, other))
            plan.decide(key, before, mine, yours, partial(_writes, saver, place, line, key))
    if plan.conflicts:
        named = ", ".join(f"'{key}'" for key in plan.conflicts)
        error = MergeConflictError(
            f"Both branches changed {named} since '{base_id}', and no reducer brings that together."
            " Say which value to take: --ours KEY or --theirs KEY."
        )
        error.keys = tuple(plan.conflicts)
        raise error
    shown = {key: as_data(value) for key, value in sorted((plan.taken | plan.combined).items())}
    ref = None
    if plan.writes and not dry_run:
        config = {**a.config, "metadata": {"merged": id_of(b)}}
        ref = Ref(*place_of(graph.update_state(config, plan.writes, as_node, **refusing(graph))))
    base_ref = Ref(place.thread_id, place.checkpoint_ns, base_id)
    return Merged(ref, base_ref, list(plan.taken), list(plan.combined), shown)


class _Plan:
    """The values that a merge writes."""

    def __init__(self, graph: Any, prefer: Mapping[str, Side]) -> None:
        self._channels = dict(graph.channels)
        self._overwrite: Any = import_module(records_of(graph)).Overwrite
        self._prefer = prefer
        self.writes: dict[str, Any] = {}
        self.taken: dict[str, Any] = {}
        """The other branch's values."""
        self.combined: dict[str, list[Any]] = {}
        """The other branch's writes, which a reducer was given."""
        self.conflicts: list[str] = []

    def decide(
        self, key: str, before: Any, ours: Any, theirs: Any, writes: Callable[[], list[Any]]
    ) -> None:
        """Decide about one key; `writes` are those of the other branch."""
        side = self._prefer.get(key)
        if side == "ours" or same(before, theirs) or same(ours, theirs):
            return
        reducer = getattr(self._channels.get(key), "operator", None)
        if side == "theirs" or same(before, ours):
            if theirs is not MISSING:  # a key cannot be taken out of a state
                self.writes[key] = theirs if reducer is None else self._overwrite(theirs)
                self.taken[key] = theirs
                return
        elif reducer is not None:
            made = writes() or _added(before, theirs)
            if made and all(overwrite_of(write) is MISSING for write in made):
                with suppress(Exception):  # a reducer may refuse the writes of another branch
                    self.writes[key] = self._overwrite(reduce(reducer, made, ours))
                    self.combined[key] = made
                    return
        self.conflicts.append(key)


def _added(before: Any, after: Any) -> list[Any]:
    """What was added at the end of a list, where the writes that added it are not stored."""
    if not isinstance(before, list) or not isinstance(after, list):
        return []
    start, _ = common_ends(before, after)
    return [after[start:]] if start == len(before) else []


def _lines(db: Database, a: CheckpointTuple, b: CheckpointTuple) -> tuple[str, list[str]]:
    """The common ancestor, and the ids from there to `b`, both included."""
    place = place_of(a.config)
    ours = set(line_to(db, place, id_of(a)))
    line: list[str] = []
    for id in line_to(db, place, id_of(b)):
        line.append(id)
        if id in ours:
            return id, line[::-1]
    raise InspectError(
        f"'{id_of(a)}' and '{id_of(b)}' have no common ancestor: it was removed, or there was none."
    )


def _values(saver: Any, place: Place) -> dict[str, Any]:
    found = saver.get_tuple(place.config())
    values = found.checkpoint["channel_values"]
    return {key: value for key, value in values.items() if not is_internal(key)}


def _writes(saver: Any, place: Place, line: Sequence[str], key: str) -> list[Any]:
    """The writes to a key along a line, oldest first; empty if some of them are not stored."""
    found: list[Any] = []
    checkpoints = (saver.get_tuple(place._replace(checkpoint_id=id).config()) for id in line)
    for parent, child in pairwise(checkpoints):
        version = parent.checkpoint["channel_versions"].get(key)
        if child.checkpoint["channel_versions"].get(key) == version:
            continue
        made = [
            value
            for _, channel, value in writes_leading_to(child, parent.pending_writes or ())
            if channel == key
        ]
        if not made:
            return []
        found += made
    return found
