"""Checkpoints as they are stored: read in part, and followed to their parents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.records import CheckpointTuple, Place, outline, place_of
from milepost.constants import BRANCH_TO, END, JOIN, ROOT
from milepost.errors import BrokenChainError, DecryptionError, MilepostError, SerdeError
from milepost.inspect._data import Unreadable
from milepost.inspect._errors import DamagedError, told_plainly
from milepost.inspect._stored import StoredObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from milepost.inspect._database import Database

UNREADABLE: Final = (SerdeError, BrokenChainError)
"""The errors that a damaged or missing row leads to."""


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
    """The state at a checkpoint as its graph shows it, with its keys by name: the order in which
    they are stored differs from one checkpoint to the next.

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
    only = only or (lambda _: True)
    values = values_of(saved, only)
    if ROOT in values:
        return values[ROOT]
    shown = {name: value for name, value in values.items() if not is_internal(name)}
    shown |= _deltas(db, saved, shown, only)
    if not shown and END in values:
        return values[END]
    return {name: shown[name] for name in sorted(shown)}


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
            values = outline(saved, (name,))["channel_values"]
            if name in values:
                found[name] = values[name]
        except UNREADABLE as error:
            found[name] = Unreadable(str(error))
    return found


def damaged(saved: CheckpointTuple, error: MilepostError) -> DamagedError:
    """The error for a checkpoint that cannot be read."""
    place = place_of(saved.config)
    hint = " `milepost verify` names every damaged row, `milepost salvage` reads what is sound."
    return DamagedError(
        f"Checkpoint '{place.checkpoint_id}' of thread '{place.thread_id}' cannot be read: {error}"
        f"{'' if isinstance(error, DecryptionError) else hint}"
    )


def _deltas(
    db: Database, saved: CheckpointTuple, shown: Any, only: Callable[[str], bool]
) -> dict[str, Any]:
    """Delta channels, whose values only their reducers can make: what those would be given."""
    counters = saved.metadata.get("counters_since_delta_snapshot") or {}
    names = [name for name in counters if name not in shown and only(name)]
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
