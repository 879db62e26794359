"""What commands print: tables and lines on a terminal, JSON for scripts, progress on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from milepost.cli.plain import plain

if TYPE_CHECKING:
    pass

_WIDE: Final = 100_000
"""Where the output is no terminal, nothing is cut off."""
SHORT_ID: Final = 8
"""So many characters of a checkpoint's id are shown, from its end: the beginnings are times, and
those of one run are much alike."""
Line = Text | str


def console() -> Console:
    """Standard output: styles only if it is a terminal."""
    is_terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=None if is_terminal else _WIDE,
        color_system="auto" if is_terminal and "NO_COLOR" not in os.environ else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def show_lines(lines: Iterable[Line], *, pager: bool = False) -> None:
    """Print lines as they come; through a pager, if that is wanted and there is a terminal."""
    out, end = console(), "\n"
    if pager and sys.stdout.isatty() and sys.stdin.isatty():
        os.environ.setdefault("LESS", "FRX")
        styles = out.color_system is not None
        # Click ends the text with a newline of its own.
        text = (f"{'' if at == 0 else end}{_rendered(out, line)}" for at, line in enumerate(lines))
        click.echo_via_pager(text, color=styles)
        return
    for line in lines:
        sys.stdout.write(f"{_rendered(out, line)}{end}")
    sys.stdout.flush()


def _rendered(out: Console, line: Line) -> str:
    """A line as it is written: not wrapped, since a terminal or pager does that."""
    if isinstance(line, str):
        return line
    if out.color_system is None:
        return line.plain
    # As a part of another: the style of a whole text is left to what prints it.
    return out._render_buffer(list(Text().append(line).render(out, end="")))


def show_table(header: Sequence[str], rows: Iterable[Sequence[Line]]) -> None:
    """A table; cells that do not fit into the terminal are cut off."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name in header:
        numbers = name in ("checkpoints", "bytes", "step", "writes", "share", "threads")
        table.add_column(
            name, justify="right" if numbers else "left", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    out = console()
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")


def show_json(value: Any) -> None:
    """A value as JSON on one line, in ASCII: nothing in it can reach the terminal as a control."""
    sys.stdout.write(f"{json.dumps(json_data(value))}\n")


def show_json_lines(values: Iterable[Any]) -> None:
    """A line of JSON for each value, as they come."""
    for value in values:
        show_json(value)
        sys.stdout.flush()


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
    """A bar on stderr while something takes long, if that is a terminal; call it for each step."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=total)

        def step(*told: object) -> None:
            done, whole = (*told, None, None)[:2]
            if isinstance(done, int):  # how much is done, of how much
                bar.update(task, completed=done, total=whole if isinstance(whole, int) else total)
            else:
                bar.advance(task)

        yield step


# -- parts of lines


def styled(text: str, style: str) -> Text:
    """A text to which others can be added: a style of the whole would be theirs as well."""
    return Text().append(text, style=style)


def short(id: str | None) -> str:
    """The end of an id."""
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
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return ""


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
    """A status in its colour."""
    return Text(plain(status), style=STATUS_STYLES.get(status, ""))
