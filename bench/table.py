"""The table that is printed, in Markdown, so that it can be pasted as it is."""

from __future__ import annotations

from collections.abc import Sequence

from bench.measure import Summary
from bench.records import LIMIT, OURS, THEIRS, TIMES, Check, Record

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
    """One line for each comparison of a record, and one for its notes."""
    first = [
        record.title,
        record.unit,
        *(figure(record.sides.get(side)) for side in (OURS, THEIRS, LIMIT)),
    ]
    found = [
        [
            f"{_compared(check)}{_spread(check.value)}",
            f"{plain(check.cpu.median)}{TIMES}" if check.cpu else "",
            str(check.target),
            _MET[check.met],
        ]
        for check in record.checks
    ]
    others = [
        f"{side}: {plain(told.median)} {record.unit}"
        for side, told in record.sides.items()
        if side not in HEAD
    ]
    if record.notes or others or not found:
        found.append(["; ".join(others + record.notes), "", "", ""])
    return [[*(["" for _ in first] if at else first), *line] for at, line in enumerate(found)]


_MET = {True: "met", False: "MISSED", None: ""}


def _compared(check: Check) -> str:
    """A ratio and what it is of: what is less than once as fast is not faster."""
    against, median = check.target.against, check.value.median
    if against == "ms":
        other = ""
    elif check.target.at_least:
        than = "" if against == THEIRS else f" {'than' if median >= 1 else 'as'} {against}"
        other = f"{'faster' if median >= 1 else 'as fast'}{than}"
    else:
        other = f"{against}'s" if against[0].isupper() else f"the {against}"
    return f"{plain(median)}{check.target.unit} {other}".strip()


def _spread(value: Summary) -> str:
    return f" ({plain(value.low)} to {plain(value.high)})" if len(value.rounds) > 1 else ""


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
        f"  {record.title}: {_compared(check)}, target {check.target}"
        for record, check in checks
        if check.met is False
    ]
    count = sum(check.met is not None for _, check in checks)
    text = f"{count - len(missed)} of {count} targets met."
    return "\n".join([text, *(["Missed:", *missed] if missed else [])])
