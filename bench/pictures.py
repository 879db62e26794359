"""Which curves are drawn into which file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.records import Record
from bench.svg import Panel, draw

GROWTH, SCALING = "growth.svg", "scaling.svg"


def pictures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the pictures for which there are curves into a folder that is there; the files."""
    growth = [
        Panel(_title(record), "turns", record.curves)
        for record in records
        if record.case.startswith("chat.") and record.curves
    ]
    scaling = [
        Panel("µs of CPU time a step", record.title.partition("against ")[2], record.curves, True)
        for record in records
        if record.case.startswith("scaling.")
    ]
    written = []
    for name, panels, columns in ((GROWTH, growth, 2), (SCALING, scaling, 3)):
        if panels:
            folder.joinpath(name).write_text(draw(panels, columns), "utf-8")
            written.append(folder / name)
    return written


def _title(record: Record) -> str:
    what = "MB in the database" if record.unit == "MB" else "ms a turn"
    backend = "Postgres" if "postgres" in record.case else "SQLite"
    return f"{what}, {backend}"
