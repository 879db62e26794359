"""Lazy named tuples: their fields are costly, and are made when they are read.

No reader sees a half-made tuple: reading a field by name, by index or by iterating gives the whole
value. A field that cannot be made raises its error at every attempt. What a field is made from was
fetched before, so that reading a field never waits for a database.

They count as instances of the named tuple, but are no tuples: code in C reads the members of a
tuple without asking, `"%s" % record` and `json.dumps(record)` among others, and would take what
is not made yet for a value. `tuple(record)` gives that code what it wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import total_ordering
from operator import index, methodcaller
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@total_ordering
class LazyTuple(Sequence[Any]):
    """The base of a class that replaces a named tuple, `plain`."""

    _fields: tuple[str, ...]
    _plain: Any
    """The named tuple."""
    _made: dict[str, Any]
    _maker: Callable[[str], Any]

    def __init_subclass__(cls, *, plain: Any) -> None:
        super().__init_subclass__()
        cls._plain = plain
        cls._fields = plain._fields
        setattr(cls, "__match_args__", plain._fields)  # noqa: B010 - mypy wants it written out
        for name in cls._fields:
            setattr(cls, name, property(methodcaller("_get", name)))

    def __new__(cls, made: dict[str, Any], maker: Callable[[str], Any]) -> Any:
        """`made` has the fields that are there, `maker` gives the others by their names."""
        self = object.__new__(cls)
        self._made, self._maker = made, maker
        return self

    @property
    def __class__(self) -> Any:
        """The class that `isinstance` sees."""
        return self._plain

    @__class__.setter
    def __class__(self, other: Any) -> None:
        raise TypeError(f"{self._plain.__name__} cannot become {other!r}.")

    def _get(self, name: str) -> Any:
        made = self._made
        if name in made:
            return made[name]
        # If two threads read at once, both get what the first has made.
        value = made.setdefault(name, self._maker(name))
        if len(made) == len(self._fields):
            self._maker = made.__getitem__  # what it was made from is needed no more
        return value

    def _plain_tuple(self) -> Any:
        """An ordinary named tuple with the same fields."""
        return self._plain._make(self)

    @classmethod
    def _make(cls, iterable: Any) -> Any:
        return cls._plain._make(iterable)

    def _replace(self, **changes: Any) -> Any:
        return self._plain_tuple()._replace(**changes)

    __replace__ = _replace

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[Any]:
        return (self._get(name) for name in self._fields)

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at] if isinstance(at, slice) else self._get(self._fields[index(at)])

    def index(self, *args: Any) -> int:
        found: int = self._plain_tuple().index(*args)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and tuple(self) == tuple(other)

    def __lt__(self, other: Any) -> bool:
        return tuple(self) < tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Any) -> Any:
        return tuple(self) + tuple(other)

    def __radd__(self, other: Any) -> Any:
        return tuple(other) + tuple(self)

    def __mul__(self, times: Any) -> Any:
        return tuple(self) * times

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(self._plain_tuple())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._plain, tuple(self)
