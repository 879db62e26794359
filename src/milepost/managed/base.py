"""What a value is that the runtime computes when a node reads it."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeAlias, TypeGuard, TypeVar

V = TypeVar("V")

__all__ = ["ManagedValueMapping", "ManagedValueSpec"]


class Steps(Protocol):
    """How far a run is."""

    @property
    def step(self) -> int:
        """The step that is taken."""

    @property
    def stop(self) -> int:
        """The step at which the recursion limit ends the run."""


class ManagedValue(Generic[V]):
    """A key of a schema that is computed when a node reads it, and cannot be written."""

    @staticmethod
    def get(scratchpad: Steps) -> V:
        """The value at this step."""
        raise NotImplementedError


ManagedValueSpec: TypeAlias = type[ManagedValue[Any]]
"""What a schema names as the second part of an `Annotated` type."""

ManagedValueMapping: TypeAlias = dict[str, ManagedValueSpec]
"""Key of the state → how it is computed."""


def is_managed_value(value: Any) -> TypeGuard[ManagedValueSpec]:
    """Whether this is a class of managed values."""
    return isinstance(value, type) and issubclass(value, ManagedValue)
