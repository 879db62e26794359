"""Channels that wait until every one of a set of names was written: joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from milepost.channels.base import BaseChannel, Value
from milepost.errors import InvalidUpdateError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence


class NamedBarrierValue(BaseChannel[None, Value, "set[Value]"], Generic[Value]):
    """Becomes available when all names have been written, and starts over when consumed.

    Args:
        typ: The type of the names.
        names: What it waits for.

    Examples:
        >>> from milepost.channels import NamedBarrierValue
        >>> channel = NamedBarrierValue(str, {"left", "right"})
        >>> channel.update(["left"]), channel.is_available()
        (True, False)
        >>> channel.update(["right"]), channel.is_available()
        (True, True)
    """

    __slots__ = ("names", "seen")
    volatile: ClassVar[bool] = False

    def __init__(self, typ: type[Value], names: set[Value]) -> None:
        super().__init__(typ)
        self.names = names
        self.seen: set[Value] = set()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.names == self.names

    __hash__ = BaseChannel.__hash__

    def copy(self) -> Self:
        new = self.from_checkpoint(MISSING)
        new.seen = self.seen.copy()
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.typ, self.names)
        new.key = self.key
        if checkpoint is not MISSING:
            new.seen, _ = _seen_and_finished(checkpoint)
        return new

    def checkpoint(self) -> Any:
        return self.seen.copy()

    def get(self) -> None:
        if not self.is_available():
            raise self.empty()

    def is_available(self) -> bool:
        return self.seen == self.names

    def update(self, values: Sequence[Value]) -> bool:
        changed = False
        for name in values:
            if name not in self.names:
                raise InvalidUpdateError(
                    f"The join '{self.key}' waits for {sorted(map(str, self.names))}, "
                    f"not for '{name}'."
                )
            if name not in self.seen:
                self.seen.add(name)
                changed = True
        return changed

    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.seen = set()
        return True


class NamedBarrierValueAfterFinish(NamedBarrierValue[Value], Generic[Value]):
    """A barrier that opens only once no node is left to run: a join into a deferred node.

    Args:
        typ: The type of the names.
        names: What it waits for.

    Examples:
        >>> from milepost.channels import NamedBarrierValueAfterFinish
        >>> channel = NamedBarrierValueAfterFinish(str, {"left", "right"})
        >>> channel.update(["left", "right"]), channel.is_available()
        (True, False)
        >>> channel.finish(), channel.is_available()
        (True, True)
    """

    __slots__ = ("finished",)
    waits_for_finish: ClassVar[bool] = True

    def __init__(self, typ: type[Value], names: set[Value]) -> None:
        super().__init__(typ, names)
        self.finished = False

    def copy(self) -> Self:
        new = super().copy()
        new.finished = self.finished
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = super().from_checkpoint(checkpoint)
        if checkpoint is not MISSING:
            _, finished = _seen_and_finished(checkpoint)
            # A barrier that was complete before it waited for the finish has opened already.
            new.finished = new.seen == new.names if finished is None else finished
        return new

    def checkpoint(self) -> Any:
        return (self.seen.copy(), self.finished)

    def is_available(self) -> bool:
        return self.finished and self.seen == self.names

    def consume(self) -> bool:
        consumed = super().consume()
        if consumed:
            self.finished = False
        return consumed

    def finish(self) -> bool:
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True


def _seen_and_finished(stored: Any) -> tuple[set[Any], bool | None]:
    """The names in the stored form of either barrier; None for one that does not wait for the
    finish: whether a node is deferred may have changed since."""
    match stored:
        case [set() | frozenset() | list() | tuple() as seen, bool() as finished]:
            return set(seen), finished
    return set(stored), None
