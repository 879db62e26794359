"""A channel that lives for one step. Edges between nodes are made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from milepost.channels.base import Value, ValueChannel
from milepost.channels.last_value import one_write
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence


class EphemeralValue(ValueChannel[Value, Value, Value], Generic[Value]):
    """Holds what the step before wrote, and nothing after that.

    Args:
        typ: The type of the value.
        guard: Whether two writes in one step are an error; otherwise the last one counts.

    Examples:
        >>> from milepost.channels import EphemeralValue
        >>> channel = EphemeralValue(str)
        >>> channel.update(["now"]), channel.get()
        (True, 'now')
        >>> channel.update([]), channel.is_available()
        (True, False)
    """

    __slots__ = ("guard",)
    volatile: ClassVar[bool] = True

    def __init__(self, typ: Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard
        """Whether two writes in one step are an error; otherwise the last one counts."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EphemeralValue) and self.guard == other.guard

    __hash__ = ValueChannel.__hash__

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.typ, self.guard)
        new.key = self.key
        new.value = checkpoint
        return new

    def update(self, values: Sequence[Any]) -> bool:
        if values:
            self.value = one_write(self.key, values) if self.guard else values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True
