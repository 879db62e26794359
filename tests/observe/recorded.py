"""Reads spans and measurements that OpenTelemetry's SDK has kept in memory."""

from collections.abc import Iterable, Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from milepost.observe import instrument


class Recorded:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("the user's")

    def instrument(self, **options: Any) -> None:
        instrument(self.tracers, self.meters, **options)

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()

    # -- spans

    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def clear(self) -> None:
        self.exporter.clear()

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, in the order in which they began."""
        found = [span for span in self.spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def tree(self, without: Iterable[str] = ()) -> list[str]:
        """Names below each other, siblings by name."""
        return tree(self.spans(), without)

    def path(self, span: ReadableSpan) -> list[str]:
        """The names from the outermost span to this one."""
        by_id = {other.context.span_id: other for other in self.spans() if other.context}
        names = [span.name]
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            names.insert(0, span.name)
        return names

    # -- measurements

    def points(self, instrument: str) -> list[Any]:
        """The data points of an instrument."""
        return self.all_points().get(instrument, [])

    def all_points(self) -> dict[str, list[Any]]:
        """The data points of all instruments; their exemplars are those since the last call."""
        found: dict[str, list[Any]] = {}
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found.setdefault(metric.name, []).extend(metric.data.data_points)
        return found


def tree(spans: Iterable[ReadableSpan], without: Iterable[str] = ()) -> list[str]:
    left = [span for span in spans if span.name not in without]
    ids = {span.context.span_id for span in left if span.context}
    lines: list[str] = []

    def show(parent: int | None, depth: int) -> None:
        inside = [span for span in left if _parent(span, ids) == parent]
        for span in sorted(inside, key=lambda span: (span.name, span.start_time)):
            lines.append("  " * depth + span.name)
            assert span.context
            show(span.context.span_id, depth + 1)

    show(None, 0)
    return lines


def _parent(span: ReadableSpan, ids: set[int]) -> int | None:
    return span.parent.span_id if span.parent and span.parent.span_id in ids else None


def text_of(spans: Iterable[ReadableSpan]) -> str:
    """Everything that spans say."""
    return "\n".join(span.to_json() for span in spans)
