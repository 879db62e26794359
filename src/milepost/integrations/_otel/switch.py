"""Switches the tracing of runs on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider, get_tracer

from milepost._engine.observers import WATCHERS, RunObserver, Watcher
from milepost._internal.version import __version__
from milepost.integrations._otel import names
from milepost.integrations._otel.instruments import Instruments
from milepost.integrations._otel.observer import TracingObserver
from milepost.integrations._otel.telemetry import Detail, Telemetry

if TYPE_CHECKING:
    from milepost._engine.run import GraphRun

_watching: Watcher | None = None
_observers: WeakSet[TracingObserver] = WeakSet()
"""Of runs that are going on, and of some that have ended."""


def switch_on(
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
    *,
    record_values: bool,
    detail: Detail,
) -> None:
    """Follow all runs that begin from now on."""
    global _watching
    switch_off()
    telemetry = Telemetry(
        get_tracer(names.SCOPE, __version__, tracer_provider),
        Instruments(meter_provider, backlog),
        record_values,
        detail,
    )

    def watch(run: GraphRun, input: Any) -> RunObserver | None:  # noqa: ARG001
        observer = TracingObserver(run, telemetry)
        _observers.add(observer)
        return observer

    _watching = watch
    WATCHERS.append(watch)


def switch_off() -> None:
    """Follow no further runs; those that are followed are followed to their ends."""
    global _watching
    if _watching is not None:
        WATCHERS.remove(_watching)
        _watching = None


def backlog() -> int:
    """Steps of open runs that wait to be stored; a large step counts as several."""
    waiting = 0
    for observer in list(_observers):
        checkpoints = observer.run.checkpoints
        thread = checkpoints.thread if checkpoints.owns_thread else None
        queue = None if thread is None else thread.queue
        waiting += 0 if queue is None else queue.unstored
    return waiting
