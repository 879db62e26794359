"""Values and paths as text: on one line, or as an indented tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from milepost.cli.lines import Text, plain, plain_lines

if TYPE_CHECKING:
    from milepost.inspect import Path


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
            yield from _branch(Text(f"{indent}{plain(key)}", "cyan"), value, depth, full)
    elif isinstance(data, list) and data:
        left_out = 0 if full else max(0, len(data) - _MOST)
        for at, value in enumerate(data):
            if left_out and at == 3:
                yield Text(f"{indent}… {left_out} more (--full)", style="dim")
            if not 3 <= at < 3 + left_out:
                yield from _branch(Text(f"{indent}{at}", "dim"), value, depth, full)
    else:
        for line in _leaf(data, full):
            yield Text(indent) + line


_MOST: Final = 20
LONG: Final = 400
"""Characters of a text, or of a line of one, that are shown."""


def _is_leaf(data: dict[str, Any]) -> bool:
    return bool({"$bytes", "$error", "$deep"} & data.keys())


def _branch(label: Text, value: Any, depth: int, full: bool) -> Iterator[Text]:
    if isinstance(value, dict) and isinstance(value.get("content"), str) and "type" in value:
        rest = {key: one for key, one in value.items() if key not in ("type", "content", "id")}
        lines = _leaf(value["content"], full, quoted=False)
        yield label + Text(f"  {plain(str(value['type']))}", style="bold") + Text("  ") + lines[0]
        for line in lines[1:]:
            yield Text("  " * (depth + 2)) + line
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
        cut = data if full or len(data) <= LONG else data[:LONG]
        lines = plain_lines(cut)
        if len(lines) == 1 and quoted:
            lines = [f'"{lines[0]}"']
        found = [Text(line, "green" if quoted else "") for line in lines]
        if len(cut) < len(data):
            found[-1] = found[-1] + Text(f" … {len(data)} characters (--full)", style="dim")
        return found
    if isinstance(data, dict) and "$deep" in data:
        return [Text("… (--path shows what is deeper)", style="dim")]
    return [Text(brief(data, 200), style="" if data not in (None, {}, []) else "dim")]
