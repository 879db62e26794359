"""Which curves are drawn into which file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.records import Record
from bench.svg import Panel, draw


def pictures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the pictures for which there are curves; the files."""
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
    for name, panels, columns in (("growth.svg", growth, 2), ("scaling.svg", scaling, 3)):
        if panels:
            folder.mkdir(parents=True, exist_ok=True)
            folder.joinpath(name).write_text(draw(panels, columns), "utf-8")
            written.append(folder / name)
    return written


def _title(record: Record) -> str:
    what = "MB in the database" if record.unit == "MB" else "ms a turn"
    backend = "Postgres" if "postgres" in record.case else "SQLite"
    return f"{what}, {backend}"
