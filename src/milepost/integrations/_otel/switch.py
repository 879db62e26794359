"""Switches tracing on and off: of runs, and of operations that are none (get_state, prune, …)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider, get_tracer

from milepost._engine.observers import WATCHERS, RunObserver, Watcher
from milepost._internal.operations import FOLLOWERS, Follower, Operation
from milepost._internal.version import __version__
from milepost._internal.weak_registry import WeakRegistry
from milepost.checkpoint._contract.threads import Removed
from milepost.integrations._otel import names
from milepost.integrations._otel.observer import TracingObserver
from milepost.integrations._otel.spans import Attributes, Detail, Instruments, Telemetry

if TYPE_CHECKING:
    from milepost._engine.run import GraphRun

_switched_on: tuple[Watcher, Follower] | None = None
"""The watchers of runs and operations, while tracing is on."""
_observers: WeakRegistry[TracingObserver] = WeakRegistry()
"""The observers of runs that have not ended, and of some that have."""


def switch_on(
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
    *,
    record_values: bool,
    detail: Detail,
) -> None:
    """Follow all runs that begin from now on."""
    global _switched_on
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

    following = partial(follow, telemetry)
    WATCHERS.append(watch)
    FOLLOWERS.append(following)
    _switched_on = watch, following


def switch_off() -> None:
    """Follow no further runs; those that are followed are followed to their ends."""
    global _switched_on
    if _switched_on is not None:
        watching, following = _switched_on
        WATCHERS.remove(watching)
        FOLLOWERS.remove(following)
        _switched_on = None


def backlog() -> int:
    """Steps of open runs that wait to be stored; a large step counts as several."""
    waiting = 0
    for observer in _observers.alive():
        checkpoints = observer.run.checkpoints
        thread = checkpoints.thread if checkpoints.owns_thread else None
        queue = None if thread is None else thread.queue
        waiting += 0 if queue is None else queue.unstored
    return waiting


@contextmanager
def follow(telemetry: Telemetry, operation: Operation) -> Iterator[None]:
    """Make the span of an operation; it is current, unless the caller's code runs in between."""
    attributes: Attributes = {}
    if operation.thread_id is not None:
        attributes[names.CONVERSATION] = operation.thread_id
    if operation.graph is not None:
        attributes[names.WORKFLOW] = operation.graph
    opened = telemetry.begin(operation.name, get_current(), attributes)
    with telemetry.around(opened, is_current=not operation.yields):
        yield
        opened.span.set_attributes(_result_attributes(operation.result))


def _result_attributes(result: Any) -> Attributes:
    """The attributes of a span for a result: numbers and ids, no values."""
    if isinstance(result, Removed):
        return {
            names.REMOVED_THREADS: len(result.threads),
            names.REMOVED_CHECKPOINTS: result.checkpoints,
            names.REMOVED_WRITES: result.writes,
            names.REMOVED_VALUES: result.values,
        }
    config = result if isinstance(result, dict) else getattr(result, "config", None)
    if isinstance(config, dict):
        checkpoint_id = (config.get("configurable") or {}).get("checkpoint_id")
        if isinstance(checkpoint_id, str):
            return {names.CHECKPOINT: checkpoint_id}
    return {}
