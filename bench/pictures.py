"""Which curves are drawn into which file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.records import OURS, Record
from bench.svg import Panel, draw

GROWTH = "growth.svg"


def pictures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the pictures for which there are curves into a folder that is there; the files."""
    growth = [
        Panel(_title(record), "turns", record.curves)
        for record in records
        if record.case.startswith("chat.") and record.curves
    ]
    drawn = dict(_laws(records))
    if growth:
        drawn[GROWTH] = growth
    for name, panels in drawn.items():
        folder.joinpath(name).write_text(draw(panels), "utf-8")
    return [folder / name for name in drawn]


def _laws(records: Sequence[Record]) -> Iterator[tuple[str, list[Panel]]]:
    """A file for each law of cost, with the exponents in its title."""
    for record in records:
        group, _, name = record.case.partition(".")
        if group == "scaling":
            what = record.title.partition("against ")[2]
            powers = (
                f"{'' if curve.name == OURS else f'{curve.name} '}{curve.law.partition(',')[0]}"
                for curve in record.curves
            )
            title = f"a turn, {what}: {', '.join(powers)}"
            yield f"law-{name}.svg", [Panel(title, f"{what} (ms of CPU time)", record.curves, True)]


def _title(record: Record) -> str:
    what = "MB in the database" if record.unit == "MB" else "ms a turn"
    backend = "Postgres" if "postgres" in record.case else "SQLite"
    return f"{what}, {backend}"
