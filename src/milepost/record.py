"""Records that only this package sees.

They are dataclasses without what nobody asks of them: frozen for the type checker alone, compared
by identity, without a `repr` of their own. That takes a third of the time at import and half of it
at every construction, and there are some thirty of them on the way to `StateGraph`.
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
    """Make a class a record of its annotated fields."""
    make = dataclass(slots=True, eq=False, repr=False, match_args=False, kw_only=kw_only)
    return make if cls is None else make(cls)
