"""Differences between two states, by path."""

from __future__ import annotations

import difflib
import json
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.records import outline, place_of
from milepost.inspect._data import as_data, members, type_name
from milepost.inspect._errors import told_plainly
from milepost.inspect._reading import NO_VALUES, UNREADABLE, state_of
from milepost.inspect._records import Change, Path
from milepost.inspect._refs import resolve
from milepost.inspect._stored import StoredObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint._contract.records import CheckpointTuple
    from milepost.inspect._database import Database
    from milepost.inspect._refs import Ref

_LONG: Final = 80
"""Texts that are longer, or have several lines, are compared line by line."""
_MOST_LINES: Final = 5_000
_MOST_PAIRS: Final = 1_000_000
"""Lists whose different parts are longer are compared place by place."""


def diff(db: Database, a: Ref, b: Ref) -> list[Change]:
    """What leads from one state to another: two checkpoints, branches or threads.

    Args:
        db: The database.
        a: The one.
        b: The other.

    Examples:
        >>> changes = inspect.diff(db, Ref.parse("trip@~1"), Ref.parse("trip"))
        >>> [(change.path, change.kind, change.before, change.after) for change in changes]
        [(('n',), 'changed', 0, 2)]
    """
    return changes(db, resolve(db, a), resolve(db, b))


def changes(db: Database, before: CheckpointTuple, after: CheckpointTuple) -> list[Change]:
    """The differences between two checkpoints that were read.

    Args:
        db: The database.
        before: The one.
        after: The other.

    Examples:
        >>> after, before, *_ = saver.list({"configurable": {"thread_id": "trip"}})
        >>> [change.path for change in inspect.changes(db, before, after)]
        [('n',)]
    """
    only = _differing(before, after)
    with told_plainly(f"thread '{place_of(after.config).thread_id}'"):
        return compare(state_of(db, before, only), state_of(db, after, only))


def _differing(before: CheckpointTuple, after: CheckpointTuple) -> Callable[[str], bool] | None:
    """Which channels may differ: in one thread, those with the same version do not."""
    one, other = place_of(before.config), place_of(after.config)
    if one[:2] != other[:2]:
        return None
    try:
        old = outline(before, NO_VALUES)["channel_versions"]
        new = outline(after, NO_VALUES)["channel_versions"]
    except UNREADABLE:
        return None
    return lambda name: name not in old or name not in new or old[name] != new[name]


def compare(before: Any, after: Any) -> list[Change]:
    """The differences between two values.

    Args:
        before: The one.
        after: The other.

    Examples:
        >>> [change.path for change in inspect.compare({"n": 1, "m": 1}, {"n": 1, "m": 2})]
        [('m',)]
    """
    return list(_compare(before, after, ()))


def _compare(before: Any, after: Any, path: Path) -> Iterator[Change]:
    if same(before, after):
        return
    if isinstance(before, (list, tuple, deque)) and type(before) is type(after):
        yield from _lists(list(before), list(after), path)
        return
    old, new = members(before), members(after)
    if old is not None and new is not None and _alike(before, after):
        for key in [*old, *(key for key in new if key not in old)]:
            step = key if isinstance(key, (str, int)) else str(key)
            if key not in new:
                yield Change((*path, step), "removed", as_data(old[key]), None)
            elif key not in old:
                yield Change((*path, step), "added", None, as_data(new[key]))
            else:
                yield from _compare(old[key], new[key], (*path, step))
        return
    yield Change(path, "changed", as_data(before), as_data(after), _lines(before, after))


def _alike(before: Any, after: Any) -> bool:
    if isinstance(before, StoredObject):
        return isinstance(after, StoredObject) and before.name == after.name
    return type(before) is type(after)


def same(before: Any, after: Any) -> bool:
    """Whether two values are the same in a state."""
    # 1, 1.0 and True are equal in Python, and not the same in a state.
    if type(before) is not type(after):
        return False
    try:
        equal = bool(before == after)
    except Exception:  # raised by a class of the program
        return before is after
    if type(before) is float and before != before:
        return bool(after != after)  # NaN, which is equal to nothing, has not changed
    return equal and (type(before) in _PLAIN or as_data(before) == as_data(after))


_PLAIN: Final = frozenset({str, int, bool, bytes, type(None)})


def _lists(before: Sequence[Any], after: Sequence[Any], path: Path) -> Iterator[Change]:
    """Lists: the path of what was removed is its place before, of everything else its place after.

    So a list that lost its first member has one difference, and not one in each place.
    """
    for old, new in aligned(before, after):
        if new is None and old is not None:
            yield Change((*path, old), "removed", as_data(before[old]), None)
        elif old is None and new is not None:
            yield Change((*path, new), "added", None, as_data(after[new]))
        elif old is not None and new is not None:
            yield from _compare(before[old], after[new], (*path, new))


Pair = tuple[int | None, int | None]
"""A place before and a place after; None for what has none."""


def aligned(before: Sequence[Any], after: Sequence[Any]) -> Iterator[Pair]:
    """Which members of two lists belong together."""
    start, end = common_ends(before, after)
    yield from ((at, at) for at in range(start))
    old, new = range(start, len(before) - end), range(start, len(after) - end)
    if old and new and len(old) * len(new) <= _MOST_PAIRS:
        matcher = difflib.SequenceMatcher(
            None, [_key(before[at]) for at in old], [_key(after[at]) for at in new], autojunk=False
        )
        for _, i, j, k, m in matcher.get_opcodes():
            yield from zip_longest(old[i:j], new[k:m])
    else:
        yield from zip_longest(old, new)
    for at in range(end, 0, -1):
        yield len(before) - at, len(after) - at


def _key(value: Any) -> str:
    """Equal for members that are the same."""
    return json.dumps([type_name(value), as_data(value)], sort_keys=True)


def common_ends(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int]:
    """How many members two lists have in common at the beginning, and at the end."""
    most = min(len(before), len(after))
    start = 0
    while start < most and same(before[start], after[start]):
        start += 1
    end = 0
    while end < most - start and same(before[-1 - end], after[-1 - end]):
        end += 1
    return start, end


def _lines(before: Any, after: Any) -> list[str] | None:
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    if max(len(before), len(after)) <= _LONG and "\n" not in before + after:
        return None
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _MOST_LINES:
        return None
    return list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=2))[2:]
