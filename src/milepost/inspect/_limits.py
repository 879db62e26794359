"""Data without its large parts: a page or an API shows the rest when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from milepost.inspect._records import Path


def limited(data: Any, limit: int, path: Path) -> tuple[Any, int]:
    """Data whose large parts are left out, and about how many characters it had.

    Args:
        data: What `as_data` gave.
        limit: How many characters a part may have.
        path: Where the data is.

    Examples:
        >>> from milepost.inspect.parts import limited
        >>> limited({"city": "Paris"}, 100, ())[0]
        {'city': 'Paris'}
    """
    if isinstance(data, str):
        size = len(data) + 2
        return ({"$more": size, "path": list(path)} if size > limit and path else data), size
    if isinstance(data, list):
        size, members = 2, []
        for at, member in enumerate(data):
            kept, length = limited(member, limit, (*path, at))
            members.append(kept)
            size += length + 1
        return _bounded(members, data, size, limit, path)
    if isinstance(data, dict):
        size, pairs = 2, {}
        for key, member in data.items():
            kept, length = limited(member, limit, (*path, key))
            pairs[key] = kept
            size += length + len(key) + 4
        return _bounded(pairs, data, size, limit, path)
    return data, len(str(data))


_MOST: Final = 200
"""A container that is too large is shown if it has at most so many members."""


def _bounded(kept: Any, data: Any, size: int, limit: int, path: Path) -> tuple[Any, int]:
    """A container whose parts are bounded; left out itself if there are still too many parts."""
    if size <= limit or not path:
        return kept, size
    left = sum(_length(member) for member in (kept if isinstance(kept, list) else kept.values()))
    if left > limit or len(data) > _MOST:
        return {"$more": size, "path": list(path), "members": len(data)}, size
    return kept, size


def _length(data: Any) -> int:
    if isinstance(data, (list, dict)):
        return len(str(data))
    return len(data) + 2 if isinstance(data, str) else 8
