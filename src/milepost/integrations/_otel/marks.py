"""What is put on spans: errors, interrupts, values, and the trace context as text."""

from __future__ import annotations

import traceback
from asyncio import CancelledError
from collections.abc import Sequence
from typing import Any

from opentelemetry.trace import Span, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from milepost._engine.drivers.effects import Abandoned
from milepost.errors import GraphBubbleUp, GraphDrained, GraphInterrupt
from milepost.integrations._otel import names
from milepost.types import Interrupt

LONGEST = 8192
"""Characters of a value that are recorded."""

SUCCEEDED, INTERRUPTED, FAILED = "success", "interrupted", "error"
DRAINED, CANCELLED = "drained", "cancelled"

_BROKEN_OFF = (Abandoned, CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)


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


def mark_error(span: Span, error: BaseException | str, *, with_text: bool) -> None:
    """Record a failure.

    The text of an exception may quote values of the state, so without `with_text` the event has
    the class and the lines of code alone.
    """
    if isinstance(error, str):  # recalled from a checkpoint, as text
        span.set_attribute(names.ERROR_TYPE, "stored")
        span.set_status(Status(StatusCode.ERROR))
        return
    kind = type(error)
    full = kind.__qualname__
    if kind.__module__ != "builtins":
        full = f"{kind.__module__}.{full}"
    span.set_attribute(names.ERROR_TYPE, full)
    if with_text:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"{full}: {error}"))
        return
    lines = "".join(traceback.format_tb(error.__traceback__))
    told: dict[str, AttributeValue] = {"exception.type": full, "exception.stacktrace": lines}
    span.add_event("exception", told)
    span.set_status(Status(StatusCode.ERROR, full))


def mark_end(span: Span, error: BaseException | None, *, with_text: bool) -> None:
    """Record how something has ended: an interrupt is no error, nor is a command that goes up."""
    if error is None:
        return
    if isinstance(error, GraphInterrupt):
        mark_interrupts(span, error.interrupts, with_values=with_text)
    elif outcome_of(error, False) == FAILED:
        mark_error(span, error, with_text=with_text)
    elif isinstance(error, _BROKEN_OFF):
        span.set_attribute(names.OUTCOME, CANCELLED)


def mark_interrupts(span: Span, interrupts: Sequence[Interrupt], *, with_values: bool) -> None:
    """Record what a run waits for."""
    span.set_attribute(names.INTERRUPTS, len(interrupts))
    for interrupt in interrupts:
        told: dict[str, AttributeValue] = {names.INTERRUPT_ID: interrupt.id}
        if with_values:
            told[names.INTERRUPT_VALUE] = shown(interrupt.value)
        span.add_event("interrupt", told)


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
