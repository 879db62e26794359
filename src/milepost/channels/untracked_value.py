"""A channel that is never saved: for connections, handles and other things of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from milepost.channels.base import Value, ValueChannel
from milepost.channels.last_value import one_write
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence


class UntrackedValue(ValueChannel[Value, Value, Value], Generic[Value]):
    """Keeps the last value for the rest of the run, and stores nothing.

    Args:
        typ: The type of the value.
        guard: Whether two writes in one step are an error; otherwise the last one counts.

    Examples:
        >>> from milepost.channels import UntrackedValue
        >>> channel = UntrackedValue(object)
        >>> channel.update(["an open file"]), channel.get(), channel.checkpoint()
        (True, 'an open file', MISSING)
    """

    __slots__ = ("guard",)
    volatile: ClassVar[bool] = False

    def __init__(self, typ: Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard
        """Whether two writes in one step are an error; otherwise the last one counts."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntrackedValue) and self.guard == other.guard

    __hash__ = ValueChannel.__hash__

    def copy(self) -> Self:
        new = self.from_checkpoint(MISSING)
        new.value = self.value
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:  # noqa: ARG002
        new = self.__class__(self.typ, self.guard)
        new.key = self.key
        return new

    def checkpoint(self) -> Any:
        return MISSING

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self.value = one_write(self.key, values) if self.guard else values[-1]
        return True
