"""The channel of a plain key: it keeps the last value, and takes one write a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from milepost.channels.base import BaseChannel, Value, ValueChannel
from milepost.errors import InvalidUpdateError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence


def one_write(key: str, values: Sequence[Any]) -> Any:
    """The only write of a step to a channel that has no rule for combining several.

    Args:
        key: The key of the state, for the error.
        values: The writes of the step.

    Raises:
        InvalidUpdateError: There are several.

    Examples:
        >>> from milepost.channels.last_value import one_write
        >>> one_write("city", ["Paris"])
        'Paris'
    """
    if len(values) != 1:
        raise InvalidUpdateError(
            f"Key '{key}' was written {len(values)} times in one step, but it has no reducer to "
            f"combine the writes. Annotate it with one, for example "
            f"`{key}: Annotated[list, operator.add]`, or let one node write it."
        )
    return values[0]


class LastValue(ValueChannel[Value, Value, Value], Generic[Value]):
    """Keeps the last value written. Two writes in one step are an error.

    Examples:
        >>> from milepost.channels import LastValue
        >>> channel = LastValue(str)
        >>> channel.update(["Paris"]), channel.update([]), channel.get()
        (True, False, 'Paris')
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValue)

    __hash__ = ValueChannel.__hash__

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        self.value = values[0] if len(values) == 1 else one_write(self.key, values)
        return True


class LastValueAfterFinish(BaseChannel[Value, Value, tuple[Value, bool]], Generic[Value]):
    """Keeps the last value, and shows it only once no node is left to run.

    It triggers deferred nodes: `finish` makes the value available, and the node that it
    triggers consumes it.

    Args:
        typ: The type of the value.
        key: The key of the state.

    Examples:
        >>> from milepost.channels import LastValueAfterFinish
        >>> channel = LastValueAfterFinish(str)
        >>> channel.update(["ready"]), channel.is_available()
        (True, False)
        >>> channel.finish(), channel.get()
        (True, 'ready')
    """

    __slots__ = ("finished", "value")
    volatile: ClassVar[bool] = False
    waits_for_finish: ClassVar[bool] = True

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Any = MISSING
        self.finished = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValueAfterFinish)

    __hash__ = BaseChannel.__hash__

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.typ, self.key)
        match checkpoint:
            case [value, bool() as finished]:
                new.value, new.finished = value, finished
            case _:
                # The node was not deferred when this was stored: it was to run in the next step.
                new.value, new.finished = checkpoint, checkpoint is not MISSING
        return new

    def checkpoint(self) -> Any:
        return MISSING if self.value is MISSING else (self.value, self.finished)

    def get(self) -> Value:
        if not self.finished or self.value is MISSING:
            raise self.empty()
        value: Value = self.value
        return value

    def is_available(self) -> bool:
        return self.finished and self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        self.finished = False
        self.value = values[-1]
        return True

    def consume(self) -> bool:
        if not self.finished:
            return False
        self.finished = False
        self.value = MISSING
        return True

    def finish(self) -> bool:
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True
