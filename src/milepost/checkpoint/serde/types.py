"""What serializers and savers know of the runtime: names of writes, and shapes of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from milepost.constants import ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS
from milepost.types import _DeltaSnapshot

__all__ = [
    "ERROR",
    "INTERRUPT",
    "RESUME",
    "SCHEDULED",
    "TASKS",
    "ChannelProtocol",
    "SendProtocol",
    "_DeltaSnapshot",
]

Value = TypeVar("Value", covariant=True)
Update = TypeVar("Update", contravariant=True)
C = TypeVar("C")


class ChannelProtocol(Protocol[Value, Update, C]):
    """What a channel offers; `milepost.channels.BaseChannel` is one.

    Examples:
        >>> from milepost.channels import LastValue
        >>> from milepost.checkpoint.serde.types import ChannelProtocol
        >>> channel: ChannelProtocol = LastValue(str)
    """

    @property
    def ValueType(self) -> Any:  # noqa: N802
        """The type of what is read."""

    @property
    def UpdateType(self) -> Any:  # noqa: N802
        """The type of what is written."""

    def checkpoint(self) -> C | None:
        """The stored form of the channel's value."""

    def from_checkpoint(self, checkpoint: C | None) -> Self:
        """The channel that was stored.

        Args:
            checkpoint: What `checkpoint` returned.
        """

    def update(self, values: Sequence[Update]) -> bool:
        """Take the writes of a step; whether anything has changed.

        Args:
            values: The writes.
        """

    def get(self) -> Value:
        """The present value."""

    def consume(self) -> bool:
        """A node that it triggered has run; whether anything has changed."""


@runtime_checkable
class SendProtocol(Protocol):
    """What a `Send` offers.

    Examples:
        >>> from milepost.checkpoint.serde.types import SendProtocol
        >>> from milepost.types import Send
        >>> isinstance(Send("node", {}), SendProtocol)
        True
    """

    node: str
    arg: Any

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __eq__(self, value: object, /) -> bool: ...
