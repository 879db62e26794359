"""Draws curves: a few panels side by side, one file, no dependency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.records import Curve

WIDTH, HEIGHT = 380, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 34, 40
COLOURS = {"milepost": "#0a7d4f", "LangGraph": "#c2410c", "payload": "#64748b"}
_OTHER = "#2563eb"


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram."""

    title: str
    across: str
    """What the horizontal axis is."""
    curves: Sequence[Curve]
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value is on the paper."""
        low, high, value = self._of(self.low), self._of(self.high), self._of(value)
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1)

    def _of(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self) -> list[float]:
        """Round values along the axis."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10(self.high - self.low or 1))
        step = next(s for s in (step, step / 2, step / 5) if (self.high - self.low) / s >= 3)
        count = int((self.high - self.low) / step)
        return [self.low + step * number for number in range(count + 1)]


def draw(panels: Sequence[Panel], columns: int = 2) -> str:
    """The text of an SVG file."""
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = columns * WIDTH, rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % columns * WIDTH, number // columns * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    points = [point for curve in panel.curves for point in curve.points if point[1] > 0]
    if not points:
        return []
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across = _Axis(min(xs) if panel.log_x else 0, max(xs), panel.log_x, LEFT, WIDTH - RIGHT)
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))
    up = _Axis(low, high if high > low else low * 10, True, HEIGHT - BOTTOM, TOP)
    parts = [f'<text x="10" y="20" font-size="12" fill="#0f172a">{escape(panel.title)}</text>']
    for value in up.ticks():
        y = up.at(value)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y))
        parts.append(_label(LEFT - 6, y + 4, _number(value), "end"))
    for value in across.ticks():
        parts.append(_label(across.at(value), HEIGHT - BOTTOM + 16, _number(value), "middle"))
    parts.append(_label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, panel.across, "middle"))
    for number, curve in enumerate(panel.curves):
        parts += _curve(curve, number, across, up)
    return parts


def _curve(curve: Curve, number: int, across: _Axis, up: _Axis) -> list[str]:
    colour = COLOURS.get(curve.name, _OTHER)
    dashed = ' stroke-dasharray="4 3"' if curve.name == "payload" else ""
    path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in curve.points if y > 0)
    key = LEFT + 8 + 92 * number
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>',
        f'<text x="{key}" y="{TOP + 12}" fill="{colour}">{escape(curve.name)}</text>',
    ]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e2e8f0"/>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#475569">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
