"""Records that only this package sees, as dataclasses of which only `__init__` is made.

`dataclass` writes each method of each class as text and compiles it, whenever a program starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform, overload

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
