"""Lines and tables: harmless text in parts with styles, which terminals show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

GAP: Final = "  "
"""Between two columns."""
_LEAST: Final = 8
"""So much of the last column is shown before the others are cut off."""
_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
"""What makes a terminal show text in a style."""


class Text:
    """A text in parts, each with a style: some words of `_CODES`."""

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

    @property
    def styled(self) -> str:
        """With the codes that a terminal knows."""
        return "".join(
            f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"
            if text and style
            else text
            for text, style in self.parts
        )

    def cut(self, room: int) -> Text:
        """The text, cut off if it takes more columns of a terminal."""
        if _width(self.plain) <= room:
            return self
        kept = Text()
        for text, style in self.parts:
            for at, sign in enumerate(text):
                room -= _width(sign)
                if room <= 0:
                    return kept + Text(f"{text[:at]}…", style)
            kept += Text(text, style)
        return kept


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[Text]],
    numbers: Sequence[bool],
    width: int | None = None,
) -> Iterator[Text]:
    """The lines of a table; those of `numbers` are aligned to the right.

    What does not fit into `width` columns of a terminal is cut off: the last column first, since a
    name or an id is of no use in part; then the widest one, so that the others can be seen.
    """
    cells = [[Text(name, "dim") for name in header], *rows]
    widths = [max(_width(cell.plain) for cell in column) for column in zip(*cells, strict=True)]
    if width is not None:
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
        for at in (len(widths) - 1, widths.index(max(widths))):
            cut = max(min(excess, widths[at] - _LEAST), 0)
            widths[at] -= cut
            excess -= cut
    for row in cells:
        filled = max((at for at, cell in enumerate(row) if cell.plain), default=0)
        line = Text()
        for at, (cell, room, right) in enumerate(zip(row, widths, numbers, strict=True)):
            if at > filled:
                break
            shown = cell.cut(room)
            space = Text(" " * (room - _width(shown.plain)))
            line += Text(GAP if at else "")
            line += space + shown if right else shown if at == filled else shown + space
        yield line if width is None else line.cut(width)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


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
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plain_lines(text: str) -> list[str]:
    """The same for a text of several lines."""
    return [plain(line) for line in text.replace("\r\n", "\n").split("\n")]
