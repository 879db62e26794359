"""Where spans and measurements go, and how a span is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import Span, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from milepost._internal.dataclass_tools import record
from milepost.integrations._otel import marks

if TYPE_CHECKING:
    from milepost.integrations._otel.instruments import Instruments

Attributes: TypeAlias = dict[str, AttributeValue]
Detail: TypeAlias = Literal["run", "task", "all"]
"""See `milepost.observe`."""


@record
class Opened:
    """A span that has not ended, and the context in which it is current."""

    span: Span
    around: TraceContext


@record
class Telemetry:
    """What observers share: the tracer, the instruments, and what may be in a span."""

    tracer: Tracer
    instruments: Instruments
    record_values: bool
    detail: Detail

    def begin(
        self, name: str, parent: TraceContext, attributes: Attributes, start: int | None = None
    ) -> Opened:
        """Begin a span. Parents are given, since a run's parts may be on any thread or task."""
        span = self.tracer.start_span(name, parent, attributes=attributes, start_time=start)
        return Opened(span, set_span_in_context(span, parent))

    def mark(self, span: Span, error: BaseException | None) -> None:
        """Record what something has ended with."""
        if error is not None:
            marks.mark_end(span, error, with_text=self.record_values)

    def show(self, span: Span, name: str, value: Any) -> None:
        """Record a value of the user's, if that is switched on."""
        if self.record_values:
            span.set_attribute(name, marks.shown(value))
