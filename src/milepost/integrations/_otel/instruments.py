"""What is measured: durations, runs by outcome, conflicts, retries, bytes, backlog, connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from milepost._db.connections import open_connections
from milepost._internal.version import __version__
from milepost.integrations._otel import names


class Instruments:
    """The instruments of one meter."""

    def __init__(self, provider: MeterProvider | None, backlog: Callable[[], int]) -> None:
        meter = get_meter(names.SCOPE, __version__, provider)

        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(backlog())]

        self.step = meter.create_histogram(
            names.STEP_DURATION, "s", "How long super-steps take, with their commits."
        )
        self.commit = meter.create_histogram(
            names.COMMIT_DURATION, "s", "How long the saver takes to store steps."
        )
        self.load = meter.create_histogram(
            names.LOAD_DURATION, "s", "How long runs take to load what is saved of their threads."
        )
        self.runs = meter.create_counter(names.RUNS, "{run}", "Runs that have ended, by outcome.")
        self.conflicts = meter.create_counter(
            names.CONFLICTS, "{conflict}", "Runs that another run has kept off their threads."
        )
        self.retries = meter.create_counter(
            names.RETRIES, "{attempt}", "Attempts of nodes after the first."
        )
        self.bytes = meter.create_counter(
            names.COMMIT_BYTES, "By", "Encoded bytes that were handed to savers and stored."
        )
        self.backlog = meter.create_observable_gauge(
            names.BACKLOG, [observed], "{step}", "Steps of open runs that wait to be stored."
        )
        self.connections = meter.create_observable_gauge(
            names.CONNECTIONS,
            [_connections],
            "{connection}",
            "Open connections of savers and stores, by database and state.",
        )


def _connections(_options: CallbackOptions) -> Iterable[Observation]:
    """Sums by database and state."""
    counts: dict[tuple[str, str], int] = {}
    for found in open_connections():
        for state, count in (("used", found.used), ("idle", found.idle)):
            counts[found.system, state] = counts.get((found.system, state), 0) + count
    return [
        Observation(count, {names.DB_SYSTEM: system, names.CONNECTION_STATE: state})
        for (system, state), count in counts.items()
    ]
