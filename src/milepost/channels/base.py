"""What a channel is: one key of the state, and the rule by which writes change it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from milepost.errors import EmptyChannelError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = TypeVar("Value")
Update = TypeVar("Update")
Stored = TypeVar("Stored")


class BaseChannel(ABC, Generic[Value, Update, Stored]):
    """One key of the state.

    A compiled graph holds one channel for each key as a pattern; a run works on copies that
    `from_checkpoint` makes. Methods never do I/O, and only `update`, `consume` and `finish`
    change anything: they say so by returning True, and the runtime gives the channel a new
    version.

    Args:
        typ: The type of the value.
        key: The key of the state.

    Examples:
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> from milepost.channels import Topic
        >>> from milepost.graph import START, StateGraph
        >>> class State(TypedDict):
        ...     news: Annotated[list, Topic(str)]
        >>> builder = StateGraph(State).add_node("tell", lambda state: {"news": ["a", "b"]})
        >>> builder.add_edge(START, "tell").compile().invoke({})
        {'news': ['a', 'b']}
    """

    __slots__ = ("key", "typ")

    volatile: ClassVar[bool] = True
    """Whether a step without a write may change the channel.

    The runtime calls `update([])` at the end of such a step for volatile channels only, so a
    class that ignores an empty update should say False: a step then costs nothing for it.
    """

    waits_for_finish: ClassVar[bool] = False
    """Whether `finish`, called when no node is left to run, may do something."""

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    @property
    def ValueType(self) -> Any:  # noqa: N802
        """The type of what `get` returns."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802
        """The type of what is written."""
        return self.typ

    # -- saving and loading

    def copy(self) -> Self:
        """A channel with the same value that can be changed independently of this one."""
        return self.from_checkpoint(self.checkpoint())

    def checkpoint(self) -> Stored | Any:
        """What has to be stored to restore the channel; MISSING if there is nothing."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    @abstractmethod
    def from_checkpoint(self, checkpoint: Stored | Any) -> Self:
        """A new channel of this make with the stored value, or an empty one for MISSING.

        Args:
            checkpoint: What `checkpoint` returned.
        """

    # -- reading

    @abstractmethod
    def get(self) -> Value:
        """The value; raises EmptyChannelError if there is none."""

    def is_available(self) -> bool:
        """Whether `get` would return a value."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    # -- writing

    @abstractmethod
    def update(self, values: Sequence[Update]) -> bool:
        """Take all writes of one step, in order; True if that changed the channel.

        Args:
            values: The writes; none in a step that does not write to the channel.

        Raises:
            InvalidUpdateError: The channel cannot take them.
        """

    def consume(self) -> bool:
        """A node that was triggered by this channel has run; True if that changed it."""
        return False

    def finish(self) -> bool:
        """No node is left to run; True if that makes a held-back value available."""
        return False

    # -- shared by subclasses

    def empty(self) -> EmptyChannelError:
        """The error for a read before the first write."""
        return EmptyChannelError(f"Channel '{self.key}' has no value yet.")


class ValueChannel(BaseChannel[Value, Update, Stored], Generic[Value, Update, Stored]):
    """A channel that holds one value, and stores it as it is.

    Args:
        typ: The type of the value.
        key: The key of the state.

    Examples:
        >>> from milepost.channels.base import ValueChannel
        >>> class Largest(ValueChannel):
        ...     UpdateType = ValueType = int
        ...     def update(self, values):
        ...         if not values:
        ...             return False
        ...         self.value = max(values)
        ...         return True
        >>> channel = Largest(int)
        >>> channel.update([1, 3, 2]), channel.get()
        (True, 3)
    """

    __slots__ = ("value",)
    volatile: ClassVar[bool] = False

    def __init__(self, typ: Any, key: str = "") -> None:
        # Not through the class above: a run makes a channel for every key that it opens.
        self.typ = typ
        self.key = key
        self.value: Any = MISSING

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.typ, self.key)
        new.value = checkpoint
        return new

    def checkpoint(self) -> Any:
        return self.value

    def get(self) -> Value:
        if self.value is MISSING:
            raise self.empty()
        value: Value = self.value
        return value

    def is_available(self) -> bool:
        return self.value is not MISSING
