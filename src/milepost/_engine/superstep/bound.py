"""What is bound to a node's function, as a digest that is the same in every process.

The node cache needs it: functions of one name may differ in what they close over, in their
defaults, in the arguments of a partial, or in the object that they are called on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Generic, TypeVar
from weakref import ref

from milepost._engine.superstep.program import ExecutableGraph
from milepost._internal.ids import blake2b, random_uuid

T = TypeVar("T")

_MAX_VALUES: Final = 10_000
"""How many objects inside a function are looked at: enough for settings, little for data."""
_SCALARS: Final[frozenset[type]] = frozenset(
    {str, int, float, complex, bool, bytes, type(None), type(...)}
)


def bound_to(target: Any) -> tuple[str, tuple[str, ...]]:
    """A digest of what is bound to a function, and the types of what cannot be told apart.

    The digest is empty for a function that has nothing bound to it, or that its module has under
    its name. An object of such a type is told from others by itself, in this process alone. A
    function is looked at once: what it changes when it runs, such as a counter, does not count.
    """
    return _DIGESTS.of(target, _bound_to)


def _bound_to(target: Any) -> tuple[str, tuple[str, ...]]:
    if isinstance(target, FunctionType) and not any(_parts(target)):
        return "", ()
    description = _Description()
    found = description.of(target)
    if isinstance(found, str) and not description.unknown:
        return "", ()  # it is told by its name
    text = repr(found)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return digest, tuple(sorted(description.unknown))


class _Remembered(Generic[T]):
    """What was found of objects, for as long as these live."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[ref[Any], T]] = {}

    def of(self, thing: Any, find: Callable[[Any], T]) -> T:
        """What `find` returned for the object when it was first seen."""
        known = self._found.get(id(thing))
        if known is not None and known[0]() is thing:
            return known[1]
        found = find(thing)
        with suppress(TypeError):  # a type without weak references: found again each time
            self._found[id(thing)] = ref(thing, partial(self._forget, id(thing))), found
        return found

    def _forget(self, key: int, gone: ref[Any]) -> None:
        known = self._found.get(key)
        if known is not None and known[0] is gone:
            del self._found[key]


_DIGESTS: Final[_Remembered[tuple[str, tuple[str, ...]]]] = _Remembered()
_OWN_NAMES: Final[_Remembered[str]] = _Remembered()
"""Names for objects that nothing else tells apart."""


class _Description:
    """Describes a value by texts: as pickle does, but with what is bound to functions."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        self._left = _MAX_VALUES
        self._open: set[int] = set()
        """The values that the present one is inside of."""

    def of(self, value: Any) -> Any:
        """Texts, in tuples, that are equal for equal values."""
        cls = type(value)
        if cls in _SCALARS:
            return repr(value)
        if id(value) in self._open:
            return "the same again"
        self._left -= 1
        self._open.add(id(value))
        try:
            if isinstance(value, type | ModuleType) or _is_global(value):
                return _full_name(value)
            if self._left >= 0:
                return (_full_name(cls), *self._inside(value))
        except Exception:  # the class says that it cannot be described, or has a fault
            pass
        finally:
            self._open.discard(id(value))
        self.unknown.add(cls.__qualname__)
        return _OWN_NAMES.of(value, lambda _: random_uuid())

    def _inside(self, value: Any) -> Iterator[Any]:
        if isinstance(program := getattr(value, "program", None), ExecutableGraph):
            parts: Any = [(name, node.callee.target) for name, node in program.nodes.items()]
        elif isinstance(value, FunctionType):
            yield _full_name(value)
            parts = _parts(value)
        elif isinstance(value, MethodType):
            parts = value.__func__, value.__self__
        elif isinstance(value, CellType):
            parts = (value.cell_contents,)
        elif type(value) in (set, frozenset):
            yield from sorted(map(repr, map(self.of, value)))
            return
        elif type(value) is dict:
            parts = [*value.items()]
        elif type(value) in (list, tuple):
            parts = value
        else:
            made = value.__reduce_ex__(4)
            parts = [*(made if isinstance(made, tuple) else (made,))]
            parts = [[*p] if at in (3, 4) and p is not None else p for at, p in enumerate(parts)]
        for part in parts:
            yield self.of(part)


def _parts(function: FunctionType) -> tuple[Any, ...]:
    """What is bound to a function: what it closes over, and its defaults."""
    cells = [cell for cell in function.__closure__ or () if cell != CellType()]
    return cells, function.__defaults__, function.__kwdefaults__


def _full_name(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    return f"{thing.__module__}.{thing.__qualname__}"


def _is_global(thing: Any) -> bool:
    """Whether a module has the thing under its name, as pickle wants it of functions."""
    module, path = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(path, str):
        return False
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found is thing or (isinstance(thing, MethodType) and bool(found == thing))
