"""What commands print: tables and lines on a terminal, JSON for scripts, progress on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from itertools import count
from shutil import get_terminal_size
from typing import Any, Final

import click

from milepost._internal.progress import shown
from milepost.cli.lines import Text, plain, table

NUMBERS: Final = frozenset(("checkpoints", "bytes", "step", "writes", "share", "threads"))
"""Columns that are aligned to the right."""
SHORT_ID: Final = 8
"""So many characters of a checkpoint's id are shown, from its end: the beginnings are times, and
those of one run are much alike."""
Line = Text | str


def has_styles() -> bool:
    """Whether standard output is a terminal that shows styles."""
    plain_terminal = "NO_COLOR" in os.environ or os.environ.get("TERM") in ("dumb", "unknown")
    return sys.stdout.isatty() and not plain_terminal


def wants(option: str) -> bool:
    """Whether the command has this option, `json` or `pager`, and it is on."""
    return bool(click.get_current_context().meta.get(f"milepost.{option}"))


def show(data: Any, lines: Iterable[Line]) -> None:
    """What a command has found: the data as JSON, or the lines."""
    if wants("json"):
        show_json(data)
    else:
        show_lines(lines)


def show_each(values: Iterable[Any], lines: Iterable[Line]) -> None:
    """The same, with a line of JSON for each value, as they come."""
    if not wants("json"):
        show_lines(lines)
        return
    for value in values:
        show_json(value)
        sys.stdout.flush()


def show_lines(lines: Iterable[Line]) -> None:
    """Print lines as they come; through a pager, if that is wanted and there is a terminal."""
    styles = has_styles()
    texts = (
        line if isinstance(line, str) else line.styled if styles else line.plain for line in lines
    )
    if wants("pager") and sys.stdout.isatty() and sys.stdin.isatty():
        os.environ.setdefault("LESS", "FRX")
        # Click ends the text with a newline of its own.
        joined = (f"\n{text}" if at else text for at, text in enumerate(texts))
        click.echo_via_pager(joined, color=styles)
        return
    for text in texts:
        if styles:
            click.echo(text)  # it knows the consoles of Windows
        else:
            sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def table_lines(header: Sequence[str], rows: Iterable[Sequence[Line]]) -> Iterator[Text]:
    """A table; what does not fit into the terminal is cut off."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    numbers = [name in NUMBERS for name in header]
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    return table(header, cells, numbers, width)


def show_json(value: Any) -> None:
    """A value as JSON on one line, in ASCII: nothing in it can reach the terminal as a control."""
    sys.stdout.write(f"{json.dumps(json_data(value))}\n")


def json_data(value: Any) -> Any:
    """Records as objects of JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: json_data(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: json_data(one) for key, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): json_data(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_data(one) for one in value]
    return value


def say(text: str) -> None:
    """A remark that is no part of the output."""
    click.echo(plain(text), err=True)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[..., None]]:
    """Show on stderr how far something has come; call it for each step."""
    with shown(label) as show:
        steps = count(1)

        def step(done: object = None, of: int | None = None) -> None:
            if isinstance(done, int):  # otherwise the id of a thread, or nothing
                show(done, total if of is None else of)
            else:
                show(next(steps), total)

        yield step


# -- parts of lines


def short(id: str | None) -> str:
    return "-" if not id else plain(id[-SHORT_ID:])


def when(moment: float | str | None) -> str:
    """A time, in the time zone of the machine."""
    if moment is None:
        return "-"
    try:
        if isinstance(moment, str):
            point = datetime.fromisoformat(moment)
        else:
            point = datetime.fromtimestamp(moment, UTC)
        return point.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return plain(str(moment))


def size(count: int | None) -> str:
    """Bytes as people read them."""
    if count is None:
        return "-"
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 1000:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def count_text(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nodes_text(names: Iterable[str]) -> str:
    """Nodes that follow: one of them may be the start, which has no name of its own."""
    return ", ".join("start" if name == "__start__" else plain(name) for name in names)


STATUS_STYLES: Final = {
    "idle": "green",
    "interrupted": "yellow",
    "running": "cyan",
    "error": "red",
    "stale": "magenta",
}


def status_text(status: str) -> Text:
    return Text(plain(status), style=STATUS_STYLES.get(status, ""))
