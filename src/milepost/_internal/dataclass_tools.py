"""Records, as dataclasses that cost little to make.

`dataclass` writes each method of each class as text and compiles it, whenever a program starts:
that was a fifth of an import of `StateGraph`. Here only `__init__` is made for each class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, frozen: bool = ..., kw_only: bool = ...) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(
    cls: type[T] | None = None,
    /,
    *,
    frozen: bool = True,  # noqa: ARG001 - the type checker reads it
    kw_only: bool = False,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a record of its annotated fields that only this package sees.

    Frozen for the type checker alone, compared by identity, without a `repr` of its own: no code
    needs more, and leaving the rest out halves the time of a construction.
    """
    make = dataclass(slots=True, eq=False, repr=False, match_args=False, kw_only=kw_only)
    return make if cls is None else make(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a class a record that programs see: what a frozen dataclass with slots can do."""
    make = dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=kw_only)

    def made(cls: type[T]) -> type[T]:
        own = vars(cls)
        for name, method in _SHARED.items():
            if name not in own:
                setattr(cls, name, method)
        return make(cls)

    return made


def _compared(given: Any) -> tuple[Any, ...]:
    return tuple([getattr(given, known.name) for known in fields(given) if known.compare])


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{known.name}={getattr(self, known.name)!r}" for known in fields(self) if known.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


_SHARED = {"__eq__": _eq, "__hash__": _hash, "__repr__": _repr}
