"""Draws docs/img/trace.svg: runs a graph, and draws the spans that OpenTelemetry got of it.

    python tools/draw_trace.py docs/img/trace.svg

Two branches side by side, one with a retry and one with a graph inside; then a question, and the
run that brings the answer.
"""

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from milepost.observe import instrument, uninstrument
from milepost.types import Command, RetryPolicy, interrupt

ROW, NAMES, WIDTH, MARGIN = 22, 270, 860, 14
FILLS = {
    "invoke_workflow": "#0a7d4f",
    "super_step": "#94a3b8",
    "task": "#2563eb",
    "attempt": "#60a5fa",
    "load": "#a16207",
    "commit": "#a16207",
}
OTHERS, FAILED, INK = "#7c3aed", "#dc2626", "#0f172a"


class State(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


def assistant(tracer: Tracer) -> StateGraph[Any]:
    """The graph. Its nodes sleep, as if they called something."""
    failures = [TimeoutError()]

    def search(_state: State) -> State:
        with tracer.start_as_current_span("GET"):  # what an instrumented HTTP client does
            time.sleep(0.03)
        if failures:
            raise failures.pop()
        return {"notes": ["found"]}

    def draft(_state: State) -> State:
        time.sleep(0.05)
        return {"notes": ["drafted"]}

    def ask(_state: State) -> State:
        time.sleep(0.01)
        answer = interrupt("Shall I send it?")
        time.sleep(0.01)
        return {"notes": [answer]}

    planner = StateGraph(State).add_node("draft", draft).add_edge(START, "draft")
    retry = RetryPolicy(initial_interval=0.01, jitter=False, retry_on=TimeoutError)
    builder = StateGraph(State).add_node("search", search, retry_policy=retry)
    builder.add_node("plan", planner.compile(name="planner")).add_node("ask", ask)
    builder.add_edge(START, "search").add_edge(START, "plan")
    return builder.add_edge(["search", "plan"], "ask")


def recorded() -> tuple[ReadableSpan, ...]:
    """The spans of both runs."""
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    try:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            for thread_id in ("first", "t-1"):  # in the first run modules are loaded
                spans.clear()
                instrument(provider)
                builder = assistant(provider.get_tracer("http"))
                graph = builder.compile(checkpointer=saver, name="assistant")
                config: Any = {"configurable": {"thread_id": thread_id}}
                for input in ({"notes": []}, Command(resume="yes")):
                    graph.invoke(input, config, durability="sync")
                    time.sleep(0.015)
    finally:
        uninstrument()
    return spans.get_finished_spans()


class Line(NamedTuple):
    """A span, and how deep it is."""

    span: ReadableSpan
    depth: int


def lines(spans: Sequence[ReadableSpan]) -> list[Line]:
    """The spans below each other, in the order in which they began."""

    def inside(parent: int | None, depth: int) -> Iterator[Line]:
        found = [s for s in spans if (s.parent.span_id if s.parent else None) == parent]
        for span in sorted(found, key=lambda span: span.start_time or 0):
            yield Line(span, depth)
            yield from inside(span.context.span_id, depth + 1)

    return list(inside(None, 0))


def draw(spans: Sequence[ReadableSpan]) -> str:
    """The text of an SVG file."""
    shown = lines(spans)
    start = min(span.start_time or 0 for span in spans)
    end = max(span.end_time or 0 for span in spans)
    scale = (WIDTH - NAMES - 2 * MARGIN) / (end - start)
    height = len(shown) * ROW + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    places: dict[int, tuple[float, float]] = {}
    for number, (span, depth) in enumerate(shown):
        y = MARGIN + number * ROW
        x = NAMES + MARGIN + ((span.start_time or 0) - start) * scale
        width = max(((span.end_time or 0) - (span.start_time or 0)) * scale, 2)
        kind = span.name.partition(" ")[0]
        failed = not span.status.is_ok
        fill = FAILED if failed else FILLS.get(kind, OTHERS)
        places[span.context.span_id] = (x + width, y + ROW / 2)
        parts += [
            f'<text x="{MARGIN + depth * 14}" y="{y + 15}" fill="{INK}">{escape(span.name)}</text>',
            f'<rect x="{x:.1f}" y="{y + 5}" width="{width:.1f}" height="{ROW - 10}" rx="2" '
            f'fill="{fill}"/>',
        ]
        said = [event.name for event in span.events if event.name == "interrupt"]
        said += [str((span.attributes or {})["error.type"])] if failed else []
        if said and kind in ("task", "attempt"):
            parts.append(
                f'<text x="{x + width + 5:.1f}" y="{y + 15}" fill="{fill}">{escape(said[0])}</text>'
            )
        for link in span.links:
            from_x, from_y = places[link.context.span_id]
            why = (link.attributes or {})["milepost.link"]
            parts += [
                f'<path d="M{x:.1f} {y + ROW / 2} L{from_x:.1f} {from_y}" stroke="#475569" '
                'stroke-dasharray="4 3" fill="none"/>',
                f'<text x="{x - 4:.1f}" y="{y + 4}" text-anchor="end" fill="#475569">'
                f"link: {escape(str(why))}</text>",
            ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(recorded()), "utf-8")
