"""What the checks of a store look at: the calls of one round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from attack.history import Span
from attack.store_register import Register, clocks
from attack.violations import Violation

Found = Iterator[Violation]


class Round:
    """What the checks look at."""

    def __init__(
        self, calls: list[Span], registers: dict[str, Register], changes_model: bool
    ) -> None:
        self.calls = calls
        self.registers = registers
        self.changes_model = changes_model
        self.begin = calls[0].start if calls else 0
        self.real = _real_time(calls)
        """Turns a time of the history into seconds since 1970."""
        self.is_skewed = any(
            self.real(span.stop) - clocks(span)[1] > 0.2
            for span in calls
            if span.is_ok and not span.arguments.get("how")
        )
        """Whether a clock was set back."""
        self.reindexes = [span for span in calls if span.operation == "store_reindex"]
        self.observations = _observations(calls)


def broken(promise: str, what: str, *calls: Span) -> Violation:
    events = [event for span in calls for event in span if event is not None]
    return Violation(promise, what, tuple(events))


def _real_time(calls: list[Span]) -> Callable[[float], float]:
    """No clock goes ahead of the real time, so the one that is furthest ahead shows it.

    A call that failed or never ended shows it too: the process may have swept before it was killed.
    """
    begun = (float(span.arguments["clock"]) - span.start / 1e9 for span in calls)
    ended = (clocks(span)[1] - span.stop / 1e9 for span in calls if span.is_ok)
    ahead = max((*begun, *ended), default=0.0)
    return lambda at: at / 1e9 + ahead


@dataclass(slots=True)
class Observation:
    """What one observation has found, by how it looked."""

    views: list[Span] = field(default_factory=list)
    by_key: dict[str, str] | None = None
    """The token of each item that is there."""


def _observations(calls: list[Span]) -> list[Observation]:
    """Each is known by its time, for its clock stands still."""
    found: dict[float, Observation] = defaultdict(Observation)
    for span in calls:
        if "how" in span.arguments and span.is_ok:
            observation = found[span.arguments["clock"]]
            observation.views.append(span)
            if span.arguments["how"] == "by key":
                view = span.result["found"][0]
                observation.by_key = {item: token for item, (token, _, _) in view.items()}
    return list(found.values())
