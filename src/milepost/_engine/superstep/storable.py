"""Warns of values that a checkpointer would refuse, in a graph without a checkpointer.

A unit test mostly runs a graph without a checkpointer, and would pass with a value in the state
that fails in production. So the first value of each type that a node writes to a key is checked.
The checks end after some runs of a node and some steps of the graph: a long run or a server does
not pay for them.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from milepost._internal.warn import warn_of
from milepost.constants import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from milepost._engine.superstep.program import ExecutableGraph, Writer

_MAX_OBJECTS: Final = 1_000
"""How many objects inside a value are checked: enough for a test, little for a large state."""
_CHECKED_RUNS: Final = 100
"""How many runs of a node are checked."""
_CHECKED_STEPS: Final = 500
"""How many steps of a graph are checked."""
_COLLECTIONS: Final = frozenset({list, tuple, set, frozenset, deque})
_SCALARS: Final[frozenset[type]] = frozenset({str, int, float, bool, bytes, type(None)})


class StorableCheck:
    """The checks and warnings of one graph so far."""

    __slots__ = ("_runs", "_seen", "_warned", "steps_left")

    def __init__(self) -> None:
        self.steps_left = _CHECKED_STEPS
        """How many more steps are checked."""
        self._runs: dict[str, int] = {}
        """Node → how many of its runs were checked."""
        self._seen: set[tuple[str, str, type]] = set()
        """Node, key and type of each checked value."""
        self._warned: set[tuple[str, type]] = set()

    def check(self, writers: Sequence[Writer], program: ExecutableGraph) -> None:
        """Warn of values that were written to keys of the state and cannot be stored."""
        self.steps_left -= 1
        runs, seen = self._runs, self._seen
        for writer in writers:
            node = writer.name
            count = runs.get(node, 0)
            if count == _CHECKED_RUNS:
                continue
            runs[node] = count + 1
            for key, value in writer.writes:
                if (node, key, type(value)) not in seen:
                    if key in program.key_places and key not in program.untracked:
                        self._check_value(node, key, value)
                    seen.add((node, key, type(value)))

    def _check_value(self, node: str, key: str, value: Any) -> None:
        for cls, reason in _refused(value):
            if (node, cls) not in self._warned:
                warn_of(
                    f"{_named(node)} wrote to '{key}' what a checkpointer would refuse: {reason}."
                    " Compile the graph with checkpointer=False if it never gets one."
                )
                self._warned.add((node, cls))


def _named(node: str) -> str:
    return "the input" if node == START else f"node '{node}'"


def _refused(value: Any) -> Iterator[tuple[type, str]]:
    """The types inside a value that the default serializer does not write, and why."""
    why_refused: Callable[[type], str | None] | None = None
    known: set[type] = set(_SCALARS)
    inside = deque([value])  # level by level: a value may contain itself
    for _ in range(_MAX_OBJECTS):
        if not inside:
            return
        one = inside.popleft()
        cls = type(one)
        if cls in _COLLECTIONS:
            inside.extend(islice(one, _MAX_OBJECTS))
        elif cls is dict:
            inside.extend(islice(one, _MAX_OBJECTS))
            inside.extend(islice(one.values(), _MAX_OBJECTS))
        elif cls not in known:
            if why_refused is None:  # imported late: most states are plain
                from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

                why_refused = JsonPlusSerializer().why_refused
            reason = why_refused(cls)
            if reason is None:
                inside.extend(getattr(one, "__dict__", {}).values())
            else:
                known.add(cls)
                yield cls, reason
