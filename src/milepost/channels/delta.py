"""A reducer channel whose checkpoints hold only what a step wrote.

Its value is rebuilt from the nearest stored snapshot by replaying the writes of the steps since.
Every `snapshot_frequency` writes the runtime stores the whole value again, so that the replay
stays short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

from milepost.channels.base import Value, ValueChannel
from milepost.channels.binop import _overwritten_twice, neutral_element, overwrite_of
from milepost.types import MISSING, _DeltaSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class DeltaChannel(ValueChannel[Value, Any, Any], Generic[Value]):
    """Combines all writes of a step with the value so far, and stores the writes alone.

    Args:
        reducer: Makes the new value from the value so far and a list of writes.
        typ: The type of the value; by default that of the annotation.
        snapshot_frequency: After how many steps the whole value is stored, so that reading it back
            does not take ever longer.

    Examples:
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> from milepost.channels import DeltaChannel
        >>> from milepost.graph import START, StateGraph
        >>> def extend(value: list, writes: list) -> list:
        ...     return [*value, *(item for write in writes for item in write)]
        >>> class State(TypedDict):
        ...     log: Annotated[list, DeltaChannel(extend)]
        >>> builder = StateGraph(State).add_node("tell", lambda state: {"log": ["b"]})
        >>> builder.add_edge(START, "tell").compile().invoke({"log": ["a"]})
        {'log': ['a', 'b']}
    """

    __slots__ = ("reducer", "snapshot_frequency")

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any],
        typ: type[Value] | None = None,
        *,
        snapshot_frequency: int = 100,
    ) -> None:
        if snapshot_frequency < 1:
            raise ValueError("snapshot_frequency counts writes: it must be at least 1.")
        super().__init__(list if typ is None else typ)
        self.reducer = reducer
        """Takes the value and the list of a step's writes, returns the new value."""
        self.snapshot_frequency = snapshot_frequency
        self.value = neutral_element(self.typ)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeltaChannel)
            and self.reducer == other.reducer
            and self.snapshot_frequency == other.snapshot_frequency
        )

    __hash__ = ValueChannel.__hash__

    def copy(self) -> Self:
        return self.from_checkpoint(self.value)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        new = self.__class__(self.reducer, self.typ, snapshot_frequency=self.snapshot_frequency)
        new.key = self.key
        if isinstance(checkpoint, _DeltaSnapshot):
            new.value = checkpoint.value
        elif checkpoint is not MISSING:
            # A whole value: the key had a plain reducer when this was stored.
            new.value = checkpoint
        return new

    def checkpoint(self) -> Any:
        return MISSING

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Apply stored writes, oldest first: `(task_id, channel, value)` or bare values.

        Args:
            writes: What is stored.
        """
        values = [w[2] if isinstance(w, tuple) and len(w) == 3 else w for w in writes]
        # The last overwrite makes all that came before it irrelevant.
        for at in range(len(values) - 1, -1, -1):
            replacement = overwrite_of(values[at])
            if replacement is not MISSING:
                self.value = replacement
                values = values[at + 1 :]
                break
        if values:
            self.value = self.reducer(self._base(), values)

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        replacements = [r for w in values if (r := overwrite_of(w)) is not MISSING]
        if len(replacements) > 1:
            raise _overwritten_twice(self.key)
        if replacements:
            self.value = replacements[0]
        else:
            self.value = self.reducer(self._base(), list(values))
        return True

    def _base(self) -> Any:
        return neutral_element(self.typ) if self.value is MISSING else self.value
