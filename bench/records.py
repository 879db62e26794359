"""What a case finds out: figures of each side, and how they stand against the targets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.measure import Reading, Summary, cpus, ratio, summary, walls

OURS, THEIRS, LIMIT = "milepost", "LangGraph", "limit"
TIMES = "\u00d7"
"""The sign between two sides of a ratio."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is aimed at: at least or at most so many times the other side."""

    against: str
    """LangGraph, limit, or what else the figure is compared with."""
    bound: float
    at_least: bool = True

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.bound:g}{self.unit}"

    @property
    def unit(self) -> str:
        """A ratio, unless the figure stands for itself."""
        return " ms" if self.against == "ms" else TIMES


@dataclass(frozen=True, slots=True)
class Check:
    """A target, and what was measured."""

    target: Target
    value: Summary
    cpu: Summary | None = None
    """The same ratio in CPU time."""

    @property
    def met(self) -> bool:
        """Whether the median reaches the target."""
        if self.target.at_least:
            return self.value.median >= self.target.bound
        return self.value.median <= self.target.bound


@dataclass(frozen=True, slots=True)
class Curve:
    """How a figure goes with a size, for one side."""

    name: str
    points: Sequence[tuple[float, float]]
    law: str = ""


@dataclass(slots=True)
class Record:
    """What was found out about one case."""

    case: str
    title: str
    unit: str
    sides: dict[str, Summary] = field(default_factory=dict)
    cpu: dict[str, Summary] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain data, with each check's verdict."""
        plain = asdict(self)
        for check, told in zip(self.checks, plain["checks"], strict=True):
            told["met"] = check.met
        return plain


def timed(
    case: str,
    title: str,
    unit: str,
    factor: float,
    taken: Mapping[str, Sequence[Reading]],
    *targets: Target,
) -> Record:
    """A record of times: `factor` turns seconds into the unit."""
    record = Record(case, title, unit)
    for side, readings in taken.items():
        record.sides[side] = summary(walls(readings)).scaled(factor)
        record.cpu[side] = summary(cpus(readings)).scaled(factor)
    for target in targets:
        if target.against == "ms":
            record.checks.append(Check(target, summary(walls(taken[OURS])).scaled(1e3)))
        elif target.against in taken:
            record.checks.append(_against(target, taken[OURS], taken[target.against]))
    return record


def _against(target: Target, ours: Sequence[Reading], other: Sequence[Reading]) -> Check:
    if target.at_least:
        return Check(target, ratio(walls(other), walls(ours)), ratio(cpus(other), cpus(ours)))
    return Check(target, ratio(walls(ours), walls(other)), ratio(cpus(ours), cpus(other)))


def faster(bound: float) -> Target:
    """So many times faster than LangGraph."""
    return Target(THEIRS, bound)


def within(bound: float, of: str = LIMIT) -> Target:
    """At most so many times something."""
    return Target(of, bound, at_least=False)


def law(points: Sequence[tuple[float, float]]) -> str:
    """How a cost grows with a size: flat, logarithmic or so, linear, or worse."""
    if len(points) < 2:
        return "one point only"
    (first, low), (last, high) = points[0], points[-1]
    growth, size = high / low, last / max(first, 1)
    if growth < 1.4:
        return f"flat ({growth:.2f}{TIMES} over {size:,.0f}{TIMES})"
    exponent = math.log(high / points[-2][1]) / math.log(last / points[-2][0])
    name = "linear" if exponent > 0.6 else "less than linear"
    if exponent > 1.25:
        name = "worse than linear"
    return (
        f"{name} (exponent {exponent:.2f} at the end, {growth:.1f}{TIMES} over {size:,.0f}{TIMES})"
    )
