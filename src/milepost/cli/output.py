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

from milepost.cli.plain import plain, plain_lines

if TYPE_CHECKING:
    from milepost.inspect import Path

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


def path_text(path: Path) -> str:
    """A path as it is written on the command line."""
    steps = []
    for step in path:
        text = str(step)
        if text and all(sign.isalnum() or sign in "_-" for sign in text):
            steps.append(f".{text}")
        else:
            steps.append(f"[{json.dumps(text)}]")
    return plain("".join(steps).removeprefix("."))


def parse_path(text: str) -> Path:
    """The path that a text means: `messages.0.content`, `settings["a.b"]`."""
    steps: list[str | int] = []
    rest = text
    while rest:
        if rest.startswith('["'):
            try:
                key, end = json.JSONDecoder().raw_decode(rest[1:])
            except ValueError as error:
                raise click.BadParameter(f"'{text}' is no path: {error}.") from error
            if not isinstance(key, str) or rest[1 + end : 2 + end] != "]":
                raise click.BadParameter(f"'{text}' is no path: ] is missing.")
            steps.append(key)
            rest = rest[2 + end :].removeprefix(".")
            continue
        cut = min((at for at in (rest.find("."), rest.find('["')) if at >= 0), default=len(rest))
        step, rest = rest[:cut], rest[cut:].removeprefix(".")
        if step.startswith("[") and step.endswith("]") and step[1:-1].lstrip("-").isdigit():
            step = step[1:-1]
        if not step:
            raise click.BadParameter(f"'{text}' is no path: a part of it is empty.")
        steps.append(step)
    return tuple(steps)


_BRIEFLY: Final = 6
"""Members that are shown on one line."""


def brief(data: Any, width: int = 60) -> str:
    """A value on one line, cut off where it is too long."""
    if isinstance(data, dict) and "content" in data and isinstance(data.get("type"), str):
        content = data["content"]
        shown = content if isinstance(content, str) else json.dumps(content)
        text = f"{data['type']}: {shown}"
    elif isinstance(data, dict) and set(data) == {"$bytes", "head"}:
        text = f"<{data['$bytes']} bytes>"
    elif isinstance(data, dict) and "$error" in data:
        text = f"<cannot be read: {data['$error']}>"
    elif isinstance(data, dict) and isinstance(data.get("$type"), str):
        inside = {key: value for key, value in data.items() if key != "$type"}
        name = data["$type"].rpartition(".")[2]
        text = f"{name}({', '.join(f'{k}={brief(v, 30)}' for k, v in inside.items())})"
    elif isinstance(data, str):
        text = f'"{data[: width + 1]}"'
    elif isinstance(data, list):
        text = f"[{', '.join(brief(one, 30) for one in data[:_BRIEFLY])}"
        text += f", … {len(data)} in all]" if len(data) > _BRIEFLY else "]"
    elif isinstance(data, dict):
        pairs = [f"{key}: {brief(one, 30)}" for key, one in list(data.items())[:_BRIEFLY]]
        text = f"{{{', '.join(pairs)}{', …' if len(data) > _BRIEFLY else ''}}}"
    else:
        text = json.dumps(data, ensure_ascii=False)
    text = plain(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def tree(data: Any, *, depth: int = 0, full: bool = False) -> Iterator[Text]:
    """A value as indented lines; long texts and lists are cut off unless `full`."""
    indent = "  " * depth
    if isinstance(data, dict) and data and not _is_leaf(data):
        for key, value in data.items():
            yield from _branch(styled(f"{indent}{plain(key)}", "cyan"), value, depth, full)
    elif isinstance(data, list) and data:
        shown = data if full or len(data) <= _MOST else [*data[:3], *data[3 - _MOST :]]
        for at, value in enumerate(data):
            if len(shown) < len(data) and 3 <= at < len(data) - _MOST + 3:
                if at == 3:
                    yield Text(f"{indent}… {len(data) - len(shown)} more (--full)", style="dim")
                continue
            yield from _branch(styled(f"{indent}{at}", "dim"), value, depth, full)
    else:
        for line in _leaf(data, full):
            yield Text(indent) + line


_MOST: Final = 20
_LONG: Final = 400


def _is_leaf(data: dict[str, Any]) -> bool:
    return bool({"$bytes", "$error", "$more", "$deep"} & data.keys())


def _branch(label: Text, value: Any, depth: int, full: bool) -> Iterator[Text]:
    if isinstance(value, dict) and isinstance(value.get("content"), str) and "type" in value:
        rest = {key: one for key, one in value.items() if key not in ("type", "content")}
        lines = _leaf(value["content"], full, quoted=False)
        yield label + Text(f"  {plain(str(value['type']))}", style="bold") + Text("  ") + lines[0]
        for line in lines[1:]:
            yield Text("  " * (depth + 2)) + line
        rest = {key: one for key, one in rest.items() if key not in ("id",)}
        if rest:
            yield from tree(rest, depth=depth + 2, full=full)
        return
    name = ""
    if isinstance(value, dict) and isinstance(value.get("$type"), str):
        name = value["$type"]
        value = {key: one for key, one in value.items() if key != "$type"}
        if set(value) in ({"items"}, {"value"}):
            value = next(iter(value.values()))
    title = label + (Text(f"  {plain(name)}", style="magenta") if name else Text())
    is_inside = isinstance(value, (dict, list)) and bool(value)
    if is_inside and not (isinstance(value, dict) and _is_leaf(value)):
        yield title
        yield from tree(value, depth=depth + 1, full=full)
        return
    first, *more = _leaf(value, full)
    yield title + Text("  ") + first
    for line in more:
        yield Text("  " * (depth + 2)) + line


def _leaf(data: Any, full: bool, *, quoted: bool = True) -> list[Text]:
    if isinstance(data, str):
        cut = data if full or len(data) <= _LONG else data[:_LONG]
        lines = plain_lines(cut)
        if len(lines) == 1 and quoted:
            lines = [f'"{lines[0]}"']
        found = [styled(line, "green" if quoted else "") for line in lines]
        if len(cut) < len(data):
            found[-1] = found[-1] + Text(f" … {len(data)} characters (--full)", style="dim")
        return found
    if isinstance(data, dict) and "$more" in data:
        return [Text(f"… {data['$more']} characters", style="dim")]
    return [Text(brief(data, 200), style="" if data not in (None, {}, []) else "dim")]
