"""Arguments of a store that are most likely mistakes, and that LangGraph's stores take.

Nothing that is stored depends on refusing them, so a call goes on with a warning. Under
MILEPOST_STRICT=1 it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from milepost._internal import log
from milepost._internal.warn import mistake
from milepost.store._core.records import IndexConfig, ListNamespacesOp
from milepost.store._core.tasks import Index
from milepost.store._core.ttl import to_micros

NO_LIMIT: Final = 2**31 - 1
"""More items than a search returns."""


def page(limit: Any, offset: Any) -> tuple[int, int]:
    """How many to find, and how many to skip. As in databases, a negative limit or None is none."""
    if type(limit) is int and type(offset) is int and 0 <= limit <= NO_LIMIT >= offset >= 0:
        return limit, offset
    return _number("limit", limit, NO_LIMIT), _number("offset", offset, 0)


def listing(op: ListNamespacesOp) -> ListNamespacesOp:
    """The operation with a page and a depth that there can be."""
    limit, offset = page(op.limit, op.offset)
    depth = None if op.max_depth is None else _number("max_depth", op.max_depth, 0)
    return op._replace(limit=limit, offset=offset, max_depth=depth)


def _number(name: str, given: Any, otherwise: int) -> int:
    """A number that was given; `otherwise`, if it is negative or None."""
    is_whole = hasattr(given, "__index__")  # as an integer of numpy
    if is_whole and given >= 0:
        return min(int(given), NO_LIMIT)
    try:
        at_most = -1 if given is None or is_whole else round(min(float(given), NO_LIMIT))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is a number, not {given!r}.") from None
    number = otherwise if at_most < 0 else at_most
    taken = "none" if number == NO_LIMIT else number
    mistake(
        ValueError(f"{name} is a number from 0 on, not {given!r}."), f"It is taken for {taken}."
    )
    return number


def value(given: Any) -> dict[str, Any]:
    """The value of an item as a dict: what `dict` makes of a model, or of pairs."""
    if isinstance(given, Mapping):
        return dict(given)
    wrong = TypeError(f"An item's value is a dict, not {type(given).__name__}.")
    pairs = [*given] if isinstance(given, Iterable) else []
    # Not any iterable that dict() takes: of a list of two-letter words it makes nonsense.
    if not pairs or not all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs):
        raise TypeError(f"{wrong} Wrap it: {{'value': ...}}.")
    mistake(wrong, "What dict() makes of it is stored.")
    return dict(pairs)


def index(paths: Any) -> Index:
    """Check the `index` argument of a put."""
    if paths is False:
        return paths
    if isinstance(paths, str) or paths is True:
        wrong = TypeError(f"index is a list of paths, or False to embed nothing; not {paths!r}.")
        mistake(wrong, "True is taken for the store's own paths, and a text for one path.")
        return None if paths is True else (paths,)
    if not all(isinstance(path, str) for path in paths):
        raise TypeError(f"index is a list of paths, or False to embed nothing; not {paths!r}.")
    return tuple(paths)


def warn_of_distance(index: IndexConfig | None, database: str) -> None:
    """Say that a database ranks by cosine, if the index asks for another distance."""
    if index is not None and index.get("distance_type", "cosine") != "cosine":
        message = "A store in %s ranks by cosine; distance_type is for PostgreSQL."
        log.warning(log.STORE, message, database)


def lifetime(minutes: float) -> int | None:
    """The microseconds until an item expires."""
    if type(minutes) not in (int, float) or not minutes <= 0:
        return to_micros(minutes)
    wrong = ValueError(f"ttl is a positive number of minutes, not {minutes!r}.")
    mistake(wrong, "The item expires at once.")
    return 1
