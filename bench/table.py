"""The table that is printed, in Markdown, so that it can be pasted as it is."""

from __future__ import annotations

from collections.abc import Sequence

from bench.measure import Summary
from bench.records import LIMIT, OURS, THEIRS, TIMES, Record

HEAD = (
    "case",
    "unit",
    OURS,
    THEIRS,
    LIMIT,
    "ratio (lowest to highest)",
    "in CPU time",
    "target",
    "",
)


def rows(record: Record) -> list[list[str]]:
    """One line for each target of a record, or one if it has none."""
    first = [
        record.title,
        record.unit,
        *(figure(record.sides.get(side)) for side in (OURS, THEIRS, LIMIT)),
    ]
    if not record.checks:
        return [[*first, "; ".join(record.notes), "", "", ""]]
    found: list[list[str]] = []
    for check in record.checks:
        unit = check.target.unit
        spread = f"{plain(check.value.low)} to {plain(check.value.high)}"
        found.append(
            [
                *(first if not found else ["", "", "", "", ""]),
                f"{plain(check.value.median)}{unit} {_against(check.target.against)} ({spread})",
                f"{plain(check.cpu.median)}{TIMES}" if check.cpu else "",
                str(check.target),
                "met" if check.met else "MISSED",
            ]
        )
    return found


def _against(other: str) -> str:
    return {THEIRS: "faster", LIMIT: "the limit", "ms": ""}.get(other, f"the {other}").strip()


def figure(summary: Summary | None) -> str:
    """A figure, short."""
    return "" if summary is None else plain(summary.median)


def plain(number: float) -> str:
    """Three digits, or all that stand before the point."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def table(records: Sequence[Record]) -> str:
    """All records in one Markdown table."""
    lines = [list(HEAD)] + [row for record in records for row in rows(record)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in [lines[0], rule, *lines[1:]]
    )


def verdict(records: Sequence[Record]) -> str:
    """How many targets are met, and which are not."""
    checks = [(record, check) for record in records for check in record.checks]
    missed = [
        f"  {record.title}: {plain(check.value.median)}{check.target.unit} "
        f"{_against(check.target.against)}, target {check.target}"
        for record, check in checks
        if not check.met
    ]
    text = f"{len(checks) - len(missed)} of {len(checks)} targets met."
    return "\n".join([text, *(["Missed:", *missed] if missed else [])])
