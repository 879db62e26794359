"""A channel that collects what several nodes send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self

from milepost.channels.base import BaseChannel, Value
from milepost.types import MISSING


class Topic(BaseChannel["Sequence[Value]", "Value | list[Value]", "list[Value]"], Generic[Value]):
    """A list of all writes of the step before, or of all steps if it accumulates.

    A write that is a list is taken as several writes.

    Args:
        typ: The type of one write.
        accumulate: Whether it keeps the writes of earlier steps.

    Examples:
        >>> from milepost.channels import Topic
        >>> channel = Topic(str, accumulate=True)
        >>> channel.update(["a"]), channel.update([["b", "c"]]), channel.get()
        (True, True, ['a', 'b', 'c'])
    """

    __slots__ = ("accumulate", "values")
    volatile: ClassVar[bool] = True

    def __init__(self, typ: type[Value], accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.values: list[Value] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and self.accumulate == other.accumulate

    __hash__ = BaseChannel.__hash__

    @property
    def ValueType(self) -> Any:  # noqa: N802
        return Sequence[self.typ]  # type: ignore[name-defined]

    @property
    def UpdateType(self) -> Any:  # noqa: N802
        return self.typ | list[self.typ]  # type: ignore[name-defined]

    def copy(self) -> Self:
        new = self.from_checkpoint(MISSING)
        new.values = self.values.copy()
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.typ, self.accumulate)
        new.key = self.key
        if checkpoint is not MISSING:
            # Older stored forms put the set of seen values in front of the list.
            new.values = list(checkpoint[1] if isinstance(checkpoint, tuple) else checkpoint)
        return new

    def checkpoint(self) -> Any:
        return self.values.copy() if self.values else MISSING

    def get(self) -> Sequence[Value]:
        if not self.values:
            raise self.empty()
        return list(self.values)

    def is_available(self) -> bool:
        return bool(self.values)

    def update(self, values: Sequence[Value | list[Value]]) -> bool:
        changed = bool(self.values) and not self.accumulate
        if changed:
            self.values = []
        before = len(self.values)
        for write in values:
            if isinstance(write, list):
                self.values.extend(write)
            else:
                self.values.append(write)
        return changed or len(self.values) > before
