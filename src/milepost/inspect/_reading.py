"""Checkpoints as they are stored: found by a reference, read in part, followed to their parents."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.constants import BRANCH_TO, END, JOIN, ROOT
from milepost.errors import BrokenChainError, MilepostError, SerdeError
from milepost.inspect._data import Unreadable
from milepost.inspect._errors import (
    AmbiguousReferenceError,
    DamagedError,
    StateNotFoundError,
    ThreadNotFoundError,
)
from milepost.inspect._failures import told_plainly
from milepost.inspect._stored import StoredObject
from milepost.inspect._tag_names import tags_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from milepost.checkpoint._contract.records import Checkpoint
    from milepost.inspect._database import Database
    from milepost.inspect._refs import Ref

UNREADABLE: Final = (SerdeError, BrokenChainError)
"""What a damaged or missing row leads to."""


class Channels:
    """A choice of channels by their names."""

    def __init__(self, choose: Callable[[str], bool]) -> None:
        self._choose = choose

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._choose(name)


def is_internal(channel: str) -> bool:
    """Whether a channel is the runtime's, and no key of the state."""
    return channel.startswith(("__", BRANCH_TO, JOIN)) and channel != ROOT


NO_VALUES: Final = Channels(lambda _: False)
INTERNAL: Final = Channels(is_internal)


def outline(saved: CheckpointTuple, channels: Any) -> Checkpoint:
    """A checkpoint with the values of some channels; with all, if its saver leaves none out."""
    part: Callable[[Collection[str]], Checkpoint] | None = getattr(saved, "outline", None)
    return saved.checkpoint if part is None else part(channels)


def id_of(saved: CheckpointTuple) -> str:
    """The id of a checkpoint.

    Args:
        saved: The checkpoint.

    Examples:
        >>> from milepost.inspect.parts import id_of, resolve
        >>> id_of(resolve(db, Ref.parse("trip"))) == next(inspect.log(db, "trip")).checkpoint_id
        True
    """
    return place_of(saved.config).checkpoint_id or ""


def parent_of(saved: CheckpointTuple) -> str | None:
    """The id of the checkpoint before it.

    Args:
        saved: The checkpoint.

    Examples:
        >>> from milepost.inspect.parts import parent_of, resolve
        >>> parent_of(resolve(db, Ref.parse("trip@~3"))) is None
        True
    """
    parent = saved.parent_config
    return None if parent is None else place_of(parent).checkpoint_id


def load(db: Database, place: Place) -> CheckpointTuple | None:
    """The checkpoint at a place, or the latest there.

    From a listing, whose records are read when they are looked at: one damaged value does not hide
    the others.

    Args:
        db: The database.
        place: The thread, the graph, and perhaps the checkpoint.

    Examples:
        >>> from milepost.checkpoint._contract.records import Place
        >>> from milepost.inspect.parts import load
        >>> load(db, Place("trip", "", None)).metadata["step"]
        2
    """
    with told_plainly(f"thread '{place.thread_id}'"):
        return next(iter(db.reader.list(place.config(), limit=1)), None)


def resolve(db: Database, ref: Ref) -> CheckpointTuple:
    """The checkpoint that a reference means.

    Args:
        db: The database.
        ref: The reference.

    Raises:
        InspectError: Says why there is none: `ThreadNotFoundError`, `StateNotFoundError`,
            `AmbiguousReferenceError`.

    Examples:
        >>> from milepost.inspect.parts import resolve
        >>> resolve(db, Ref.parse("trip@~1")).metadata["step"]
        1
    """
    found = resolve_or_none(db, ref)
    if found is None:
        raise StateNotFoundError(f"Thread '{ref.thread_id}' has no checkpoint yet.")
    return found


def resolve_or_none(db: Database, ref: Ref) -> CheckpointTuple | None:
    """`resolve`; None for a thread without checkpoints."""
    id = None if ref.at is None else _named(db, ref, ref.at)
    saved = load(db, Place(ref.thread_id, ref.namespace, id))
    if saved is None:
        with told_plainly(f"thread '{ref.thread_id}'"):
            row = db.source.thread(ref.thread_id)
        if row is None:
            raise no_such_thread(db, ref.thread_id)
        if ref.namespace:
            raise _no_such_namespace(db, ref)
        return None
    if ref.back:
        before = next(islice(ancestors(db, saved), ref.back - 1, None), None)
        if before is None:
            raise StateNotFoundError(f"'{ref}' goes back further than the thread does.")
        return before
    return saved


def _named(db: Database, ref: Ref, at: str) -> str:
    """The id that begins or ends like this, or has this tag."""
    thread_id, ns = ref.thread_id, ref.namespace
    with told_plainly(f"thread '{thread_id}'"):
        row = db.source.thread_entry(thread_id)
        if row is None:
            raise no_such_thread(db, thread_id)
        tag = tags_in(row.metadata).get(at)
        if tag is not None and tag.namespace == ns:
            return tag.checkpoint_id
        found = db.source.ids(thread_id, ns, at, 3)
        if at in found:
            return at
        found = found or db.source.ids_ending(thread_id, ns, at, 3)
    if len(found) == 1:
        return found[0]
    if found:
        error = AmbiguousReferenceError(
            f"'{at}' means several checkpoints of thread '{thread_id}': {', '.join(found)}"
            f"{' …' if len(found) > 2 else ''}. Write more of the one that you mean; the ends of "
            "ids differ most."
        )
        error.candidates = tuple(found)
        raise error
    if ns and ns not in db.source.namespaces(thread_id):
        raise _no_such_namespace(db, ref)
    raise StateNotFoundError(
        f"Thread '{thread_id}' has no checkpoint or tag '{at}'"
        f"{f' in {ns}' if ns else ''}. `milepost log` lists its checkpoints, `milepost tags` its "
        "tags."
    )


def no_such_thread(db: Database, thread_id: str) -> ThreadNotFoundError:
    """The error, with threads that may be meant."""
    from milepost.checkpoint._contract.threads import Wanted
    from milepost.checkpoint._sql.threads.registry import Search

    close = db.source.threads(Wanted(limit=4), Search(thread_id)).items
    hint = f" There is {', '.join(row.thread_id for row in close)}." if close else ""
    return ThreadNotFoundError(
        f"There is no thread '{thread_id}' in {db.url}.{hint} `milepost threads` lists them."
    )


def _no_such_namespace(db: Database, ref: Ref) -> StateNotFoundError:
    there = [ns for ns in db.source.namespaces(ref.thread_id) if ns][:8]
    known = f"it has {', '.join(there)}" if there else "it has none"
    return StateNotFoundError(
        f"Thread '{ref.thread_id}' has no inner graph '{ref.namespace}': {known}."
    )


def ancestors(db: Database, saved: CheckpointTuple) -> Iterator[CheckpointTuple]:
    """The checkpoints before one, from parent to parent; `saved` itself is not among them."""
    place = place_of(saved.config)
    wanted = parent_of(saved)
    if wanted is None:
        return
    within = place._replace(checkpoint_id=None).config()
    with told_plainly(f"thread '{place.thread_id}'"):
        for one in db.reader.list(within, before=saved.config):
            id = id_of(one)
            if id == wanted:
                yield one
                wanted = parent_of(one)
                if wanted is None:
                    return
            elif id < wanted:
                return  # the parent was removed: the line ends here


def line_to(db: Database, place: Place, id: str) -> Iterator[str]:
    """The ids of a checkpoint and of its ancestors, from parent to parent; no rows are read."""
    parents = dict(db.source.line(place.thread_id, place.checkpoint_ns))
    at: str | None = id
    while at is not None and at in parents:
        yield at
        at = parents[at]


def state_of(
    db: Database, saved: CheckpointTuple, only: Callable[[str], bool] | None = None
) -> Any:
    """The state at a checkpoint as its graph shows it.

    A value that cannot be read is replaced by the reason: the others are shown.

    Args:
        db: The database.
        saved: The checkpoint.
        only: Says which keys are wanted; all by default.

    Examples:
        >>> from milepost.inspect.parts import resolve, state_of
        >>> state_of(db, resolve(db, Ref.parse("trip")), only=lambda key: key == "city")
        {'city': 'Paris'}
    """
    values = values_of(saved, only or (lambda _: True))
    if ROOT in values:
        return values[ROOT]
    shown = {name: value for name, value in values.items() if not is_internal(name)}
    shown |= _deltas(db, saved, shown, only)
    if not shown and END in values:
        return values[END]
    return shown


def values_of(saved: CheckpointTuple, only: Callable[[str], bool]) -> dict[str, Any]:
    """The values of channels; `Unreadable` where one cannot be read."""
    try:
        found = outline(saved, Channels(only))["channel_values"]
    except UNREADABLE:
        return _one_by_one(saved, only)
    return {name: value for name, value in found.items() if only(name)}


def _one_by_one(saved: CheckpointTuple, only: Callable[[str], bool]) -> dict[str, Any]:
    try:
        names = list(outline(saved, NO_VALUES)["channel_versions"])
    except UNREADABLE as error:
        raise damaged(saved, error) from error
    found: dict[str, Any] = {}
    for name in filter(only, names):
        try:
            found |= {
                key: value
                for key, value in outline(saved, (name,))["channel_values"].items()
                if key == name
            }
        except UNREADABLE as error:
            found[name] = Unreadable(str(error))
    return found


def damaged(saved: CheckpointTuple, error: MilepostError) -> DamagedError:
    """The error for a checkpoint that cannot be read."""
    place = place_of(saved.config)
    return DamagedError(
        f"Checkpoint '{place.checkpoint_id}' of thread '{place.thread_id}' cannot be read: {error} "
        "`milepost verify` names every damaged row, `milepost salvage` reads what is sound."
    )


def _deltas(
    db: Database, saved: CheckpointTuple, shown: Any, only: Callable[[str], bool] | None
) -> dict[str, Any]:
    """Delta channels, whose values only their reducers can make: what those would be given."""
    counters = saved.metadata.get("counters_since_delta_snapshot") or {}
    names = [name for name in counters if name not in shown and (only is None or only(name))]
    if not names:
        return {}
    history = db.reader.get_delta_channel_history(config=saved.config, channels=names)
    return {
        name: StoredObject(
            "milepost:Delta",
            {"seed": found.get("seed"), "writes": [value for _, _, value in found["writes"]]},
        )
        for name, found in history.items()
    }
