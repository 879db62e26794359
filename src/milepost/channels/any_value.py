"""A channel for writes that are known to be equal: any of them will do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic

from milepost.channels.base import Value, ValueChannel
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AnyValue(ValueChannel[Value, Value, Value], Generic[Value]):
    """Keeps one of a step's writes, and loses its value in a step that does not write it.

    Examples:
        >>> from milepost.channels import AnyValue
        >>> channel = AnyValue(int)
        >>> channel.update([1, 2]), channel.get()
        (True, 2)
        >>> channel.update([]), channel.is_available()
        (True, False)
    """

    __slots__ = ()
    volatile: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyValue)

    __hash__ = ValueChannel.__hash__

    def update(self, values: Sequence[Any]) -> bool:
        if values:
            self.value = values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True
