"""How spans are begun, what is put on them (errors, interrupts, values, the trace context), and
what is measured: durations, runs by outcome, conflicts, retries, bytes, backlog, connections."""

from __future__ import annotations

import traceback
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from opentelemetry.context import Context as TraceContext
from opentelemetry.context import attach, detach
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter
from opentelemetry.trace import (
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from milepost._db.connections import open_connections
from milepost._engine.drivers.effects import Abandoned
from milepost._internal.dataclass_tools import record
from milepost._internal.version import __version__
from milepost.errors import GraphBubbleUp, GraphDrained, GraphInterrupt
from milepost.integrations._otel import names
from milepost.types import Interrupt

Attributes: TypeAlias = dict[str, AttributeValue]
Detail: TypeAlias = Literal["run", "task", "all"]
"""See `milepost.observe`."""

LONGEST = 8192
"""Characters of a value that are recorded."""

SUCCEEDED, INTERRUPTED, FAILED = "success", "interrupted", "error"
DRAINED, CANCELLED = "drained", "cancelled"

_BROKEN_OFF = (Abandoned, CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)


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


@record
class OpenSpan:
    """A span that has not ended, and the context in which it is current."""

    span: Span
    context: TraceContext


@record
class Telemetry:
    """What observers share: the tracer, the instruments, and what may be in a span."""

    tracer: Tracer
    instruments: Instruments
    record_values: bool
    detail: Detail

    def begin(
        self, name: str, parent: TraceContext, attributes: Attributes, start: int | None = None
    ) -> OpenSpan:
        """Begin a span. Parents are given, since a run's parts may be on any thread or task."""
        span = self.tracer.start_span(name, parent, attributes=attributes, start_time=start)
        return OpenSpan(span, set_span_in_context(span, parent))

    @contextmanager
    def around(self, opened: OpenSpan, *, is_current: bool = True) -> Iterator[None]:
        """Let a span last as long as the block, current unless the caller's code runs in between,
        and record what the block raises."""
        token = attach(opened.context) if is_current else None
        try:
            yield
        except BaseException as error:
            self.mark(opened.span, error)
            raise
        finally:
            if token is not None:
                detach(token)
            opened.span.end()

    def mark(self, span: Span, error: BaseException | str | None) -> None:
        """Record what something has ended with: an interrupt or a command that goes up is no error.

        A text is an error that was recalled from a checkpoint.
        """
        if error is None:
            return
        if isinstance(error, str):
            span.set_attribute(names.ERROR_TYPE, "stored")
            span.set_status(Status(StatusCode.ERROR))
        elif isinstance(error, GraphInterrupt):
            self.mark_interrupts(span, error.interrupts)
        elif outcome_of(error, False) == FAILED:
            self._mark_failure(span, error)
        elif isinstance(error, _BROKEN_OFF):
            span.set_attribute(names.OUTCOME, CANCELLED)

    def _mark_failure(self, span: Span, error: BaseException) -> None:
        """Record an exception.

        Its text may quote values of the state, so without `record_values` the event has the class
        and the lines of code alone.
        """
        kind = type(error)
        full = kind.__qualname__
        if kind.__module__ != "builtins":
            full = f"{kind.__module__}.{full}"
        span.set_attribute(names.ERROR_TYPE, full)
        if self.record_values:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, f"{full}: {error}"))
            return
        lines = "".join(traceback.format_tb(error.__traceback__))
        span.add_event("exception", {"exception.type": full, "exception.stacktrace": lines})
        span.set_status(Status(StatusCode.ERROR, full))

    def mark_interrupts(self, span: Span, interrupts: Sequence[Interrupt]) -> None:
        """Record what a run waits for."""
        span.set_attribute(names.INTERRUPTS, len(interrupts))
        for interrupt in interrupts:
            attributes: Attributes = {names.INTERRUPT_ID: interrupt.id}
            if self.record_values:
                attributes[names.INTERRUPT_VALUE] = shown(interrupt.value)
            span.add_event("interrupt", attributes)

    def show(self, span: Span, name: str, value: Any) -> None:
        """Record a value of the user's, if that is switched on."""
        if self.record_values:
            span.set_attribute(name, shown(value))


def outcome_of(error: BaseException | None, paused: bool) -> str:
    """How a run has ended, in one word."""
    if error is None:
        return INTERRUPTED if paused else SUCCEEDED
    if isinstance(error, GraphInterrupt):
        return INTERRUPTED
    if isinstance(error, GraphDrained):
        return DRAINED
    if isinstance(error, GraphBubbleUp):
        return SUCCEEDED  # a command for the graph around
    return CANCELLED if isinstance(error, _BROKEN_OFF) else FAILED


def shown(value: Any) -> str:
    """A value as text, cut where it is long."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}: its repr fails with {type(error).__name__}>"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


# -- the trace context, as checkpoints keep it


def to_text(context: SpanContext) -> str:
    """A span context as the W3C's `traceparent`."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def from_text(text: object) -> SpanContext | None:
    """The span context that a checkpoint keeps; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        version, trace_id, span_id, flags = text.split("-")
        found = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    except ValueError:
        return None
    return found if version == "00" and found.is_valid else None
