"""Lines and tables: harmless text in parts with styles, which rich renders on a terminal.

Elsewhere there are no styles, and rich is not imported: that would take longer than most commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

GAP: Final = "  "
"""Between two columns."""
_LEAST: Final = 8
"""So much of the last column is shown before the others are cut off."""


class Text:
    """A text in parts, each with a style."""

    __slots__ = ("parts",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts: tuple[tuple[str, str], ...] = ((text, style),)

    def __add__(self, other: Text) -> Text:
        joined = Text()
        joined.parts = self.parts + other.parts
        return joined

    @property
    def plain(self) -> str:
        """Without styles."""
        return "".join(text for text, _ in self.parts)

    def rendered(self, console: Console) -> str:
        """With the codes that a terminal knows. A terminal or pager wraps it."""
        from rich.segment import Segments

        with console.capture() as captured:
            # Segments are printed as they are: text would be wrapped here, to the console's width.
            console.print(Segments(self.rich().render(console, end="")), crop=False)
        return captured.get()

    def rich(self) -> Any:
        """As a text of rich."""
        from rich.text import Text as RichText

        return RichText.assemble(*((text, style) for text, style in self.parts))


def plain_table(
    header: Sequence[str], rows: Sequence[Sequence[Text]], numbers: Sequence[bool]
) -> Iterator[str]:
    """The lines of a table without styles, with nothing cut off."""
    cells = _cells(header, rows)
    widths = _widths(cells)
    for row in cells:
        padded = (
            _padded(cell, width, right)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        )
        yield GAP.join(padded).rstrip()


def _cells(header: Sequence[str], rows: Sequence[Sequence[Text]]) -> list[list[str]]:
    return [list(header), *([cell.plain for cell in row] for row in rows)]


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_width, column)) for column in zip(*cells, strict=True)]


def _padded(cell: str, width: int, right: bool) -> str:
    room = " " * (width - _width(cell))
    return room + cell if right else cell + room


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def rich_table(
    header: Sequence[str], rows: Sequence[Sequence[Text]], numbers: Sequence[bool], width: int
) -> Any:
    """The same as a table of rich, which cuts off what does not fit: the last column first, since
    a name or an id is of no use in part; then the widest one, so that the others can be seen."""
    from rich.table import Table

    widths = _widths(_cells(header, rows))
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    for at in (len(widths) - 1, widths.index(max(widths))):
        cut = max(min(excess, widths[at] - _LEAST), 0)
        widths[at] -= cut
        excess -= cut
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name, right, room in zip(header, numbers, widths, strict=True):
        table.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=room,
        )
    for row in rows:
        table.add_row(*(cell.rich() for cell in row))
    return table


# -- text that cannot do anything to a terminal
#
# What is shown comes from databases: names, messages, keys. A control character in it could move
# the cursor, change the title or the clipboard, or turn the direction of the text. All of them are
# shown as escapes.

_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, signs without width, marks of direction, halves of pairs, tag characters."""


def plain(text: str) -> str:
    """`text` on one line, with escapes for everything that is not shown as itself."""
    return _UNSAFE.sub(_escaped, text)


def plain_lines(text: str) -> list[str]:
    """The same for a text of several lines."""
    return [plain(line) for line in text.replace("\r\n", "\n").split("\n")]


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(sign)
    if known is not None:
        return known
    code = ord(sign)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
