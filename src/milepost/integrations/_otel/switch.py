"""Switches the tracing of runs on and off."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider, get_tracer

from milepost._engine.observers import WATCHERS, RunObserver, Watcher
from milepost._internal.operations import FOLLOWERS, Follower
from milepost._internal.version import __version__
from milepost._internal.weak_registry import WeakRegistry
from milepost.integrations._otel import names
from milepost.integrations._otel.instruments import Instruments
from milepost.integrations._otel.observer import TracingObserver
from milepost.integrations._otel.operations import follow
from milepost.integrations._otel.telemetry import Detail, Telemetry

if TYPE_CHECKING:
    from milepost._engine.run import GraphRun

_watching: Watcher | None = None
_following: Follower | None = None
_observers: WeakRegistry[TracingObserver] = WeakRegistry()
"""Of runs that are going on, and of some that have ended."""


def switch_on(
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
    *,
    record_values: bool,
    detail: Detail,
) -> None:
    """Follow all runs that begin from now on."""
    global _watching, _following
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
    _following = partial(follow, telemetry)
    FOLLOWERS.append(_following)


def switch_off() -> None:
    """Follow no further runs; those that are followed are followed to their ends."""
    global _watching, _following
    if _watching is not None and _following is not None:
        WATCHERS.remove(_watching)
        FOLLOWERS.remove(_following)
        _watching = _following = None


def backlog() -> int:
    """Steps of open runs that wait to be stored; a large step counts as several."""
    waiting = 0
    for observer in _observers.alive():
        checkpoints = observer.run.checkpoints
        thread = checkpoints.thread if checkpoints.owns_thread else None
        queue = None if thread is None else thread.queue
        waiting += 0 if queue is None else queue.unstored
    return waiting
