"""The channel of a key with a reducer: each write is combined with the value so far."""

from __future__ import annotations

import collections
import collections.abc
import operator
from typing import TYPE_CHECKING, Any, Final, Generic, Self, get_origin

from milepost.channels.base import Value, ValueChannel
from milepost.errors import InvalidUpdateError
from milepost.types import MISSING, Overwrite, _DeltaSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A schema may name an abstract collection; its neutral element is the usual concrete one.
_CONCRETE: dict[Any, type] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def overwrite_of(write: Any) -> Any:
    """The value of an Overwrite, also in its JSON forms; MISSING for any other write.

    Args:
        write: What a node wrote.

    Examples:
        >>> from milepost.channels.binop import overwrite_of
        >>> from milepost.types import Overwrite
        >>> overwrite_of(Overwrite([])), overwrite_of([])
        ([], MISSING)
    """
    if type(write) is Overwrite:
        return write.value
    if type(write) is dict:
        if len(write) == 1 and "__overwrite__" in write:
            return write["__overwrite__"]
        if write.get("type") == "__overwrite__" and "value" in write:  # its fields
            return write["value"]
    return MISSING


def _overwritten_twice(key: str) -> InvalidUpdateError:
    """The error for two Overwrites of a key in one step."""
    return InvalidUpdateError(
        f"Key '{key}' was overwritten twice in one step. "
        "Only one node of a step may send an Overwrite for it."
    )


def neutral_element(typ: Any) -> Any:
    """What a reducer starts from: `typ()`, or MISSING where that cannot be made.

    Args:
        typ: The type of the value.

    Examples:
        >>> from milepost.channels.binop import neutral_element
        >>> neutral_element(list), neutral_element(int)
        ([], 0)
    """
    origin = get_origin(typ)
    make = _CONCRETE.get(origin or typ, origin or typ)
    try:
        return make()
    except Exception:
        return MISSING


PURE_REDUCERS: Final[list[Callable[..., Any]]] = [operator.add, operator.or_]
"""Reducers that change neither of their arguments: what they make of a write can be tried out."""


class BinaryOperatorAggregate(ValueChannel[Value, Value, Value], Generic[Value]):
    """Combines each write with the value so far by a function of two arguments.

    Args:
        typ: The type of the value, whose empty form it starts from.
        operator: Makes the new value from the value so far and a write.

    Examples:
        >>> import operator
        >>> from milepost.channels import BinaryOperatorAggregate
        >>> channel = BinaryOperatorAggregate(int, operator.add)
        >>> channel.update([1, 2]), channel.get()
        (True, 3)
    """

    __slots__ = ("operator",)

    def __init__(self, typ: type[Value], operator: Callable[[Value, Value], Value]) -> None:
        super().__init__(typ)
        self.operator = operator
        self.value = neutral_element(typ)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryOperatorAggregate):
            return False
        if "<lambda>" in (
            getattr(self.operator, "__name__", ""),
            getattr(other.operator, "__name__", ""),
        ):
            # Each evaluation of a schema makes new lambdas: they cannot be told apart.
            return True
        return bool(self.operator == other.operator)

    __hash__ = ValueChannel.__hash__

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__.__new__(self.__class__)
        new.typ = self.typ
        new.key = self.key
        new.operator = self.operator
        if type(checkpoint) is _DeltaSnapshot:  # the key had a DeltaChannel when this was stored
            checkpoint = checkpoint.value
        new.value = neutral_element(self.typ) if checkpoint is MISSING else checkpoint
        return new

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Apply writes that are stored of a time when the key had a DeltaChannel, oldest first.

        Args:
            writes: What is stored, as `(task_id, channel, value)`.
        """
        for _, _, value in writes:
            self.update([value])

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        value = self.value
        overwritten = False
        for write in values:
            replacement = overwrite_of(write)
            if replacement is not MISSING:
                if overwritten:
                    raise _overwritten_twice(self.key)
                value = replacement
                overwritten = True
            elif not overwritten:
                # Writes that come beside an Overwrite are dropped, whatever their order.
                value = write if value is MISSING else self.operator(value, write)
        self.value = value
        return True
