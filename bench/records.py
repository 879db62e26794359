"""What a case finds out: figures of each side, and how they stand against the targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

from bench.measure import Reading, Summary, cpus, ratio, summary, walls

OURS, THEIRS, LIMIT, DBOS = "milepost", "LangGraph", "limit", "DBOS"
TIMES = "\u00d7"
"""The sign between two sides of a ratio."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is aimed at: at least or at most so many times the other side."""

    against: str
    """LangGraph, limit, or what else the figure is compared with."""
    bound: float | None = None
    """None if it is only compared."""
    at_least: bool = True

    def __str__(self) -> str:
        if self.bound is None:
            return ""
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
    def met(self) -> bool | None:
        """Whether the median reaches the target; None if there is none."""
        if self.target.bound is None:
            return None
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
    walls: list[Curve] = field(default_factory=list)
    """The curves in wall time, if they are of CPU time. These are not drawn."""
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
    record = figures(case, title, unit, {s: [r.wall * factor for r in t] for s, t in taken.items()})
    for side, readings in taken.items():
        record.cpu[side] = summary(cpus(readings)).scaled(factor)
    for target in targets or [Target(THEIRS)]:
        if target.against == "ms":
            record.checks.append(Check(target, summary(walls(taken[OURS])).scaled(1e3)))
        elif target.against in taken:
            record.checks.append(_against(target, taken[OURS], taken[target.against]))
    return record


def figures(
    case: str, title: str, unit: str, found: Mapping[str, Sequence[float]], *targets: Target
) -> Record:
    """A record of what is in its unit already, such as bytes, or of times that have no CPU time."""
    record = Record(case, title, unit)
    record.sides.update((side, summary(values)) for side, values in found.items())
    for target in targets:
        if target.against in found:
            sides = found[target.against], found[OURS]
            record.checks.append(
                Check(target, ratio(*(sides if target.at_least else reversed(sides))))
            )
    return record


def _against(target: Target, ours: Sequence[Reading], other: Sequence[Reading]) -> Check:
    if target.at_least:
        return Check(target, ratio(walls(other), walls(ours)), ratio(cpus(other), cpus(ours)))
    return Check(target, ratio(walls(ours), walls(other)), ratio(cpus(ours), cpus(other)))


def faster(bound: float | None, than: str = THEIRS) -> Target:
    """So many times faster than LangGraph, or than something else."""
    return Target(than, bound)


def within(bound: float | None, of: str = LIMIT) -> Target:
    """At most so many times something."""
    return Target(of, bound, at_least=False)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The power of the size that a cost grows with: the slope of the points on logarithmic axes."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def law(points: Sequence[tuple[float, float]]) -> str:
    """How a cost grows with a size: flat, or the simplest law that the points are close to."""
    if len(points) < 3:
        return "too few points"  # two are on a curve of every law
    costs = [cost for _, cost in points]
    growth, span = costs[-1] / costs[0], points[-1][0] / points[0][0]
    told = f"({_times(growth)} over {_times(span)})"
    apart = max(costs) / min(costs)
    if apart < FLAT:
        return f"flat {told}"
    if growth < FLAT:
        return f"uneven, up to {_times(apart)} apart {told}"
    if growth > STEEP * span:
        return f"{_WORSE} {told}"
    misfits = [(name, _misfit(points, of)) for name, of in _LAWS]
    close = [name for name, misfit in misfits if misfit < CLOSE**2]
    best, _ = min(misfits, key=itemgetter(1))
    return f"{close[0] if close else best} {told}"


def _times(number: float) -> str:
    return f"{number:,.0f}{TIMES}" if number >= 10 else f"{number:.2g}{TIMES}"


FLAT = 1.2
"""Costs that are less far apart are taken for the same."""

CLOSE = 0.05
"""Points this far from a curve, as a part of their height, may be on it: so much is noise."""

STEEP = 1.5
"""Growth of so many times the span is no noise on a line."""

_WORSE = "worse than linear"
_LAWS: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("logarithmic", math.log),
    ("linear", lambda size: size),
    (_WORSE, lambda size: size**1.5),
    (_WORSE, lambda size: size * size),
)


def _misfit(points: Sequence[tuple[float, float]], of: Callable[[float], float]) -> float:
    """Squares of how far they are from the best `a + b * of(size)`, relative to their height."""
    weights = [1 / (y * y) for _, y in points]
    xs, ys = [of(x) for x, _ in points], [y for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    mean_y = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    rows = list(zip(weights, xs, ys, strict=True))
    spread = sum(w * (x - mean_x) ** 2 for w, x, _ in rows)
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in rows) / spread
    return sum(w * (y - mean_y - slope * (x - mean_x)) ** 2 for w, x, y in rows)
