"""Plain text for terminals: tables, and styles where the output is a terminal.

Only ASCII, so that it shows whatever the encoding of the terminal or file is.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from milepost.cli.lines import Text, plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Printer:
    """Writes to a stream, with styles if the stream is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout
        self.has_styles = self.stream.isatty() and "NO_COLOR" not in os.environ

    def styled(self, style: str, text: str) -> str:
        """`text` in a style, or as it is where there are no styles."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.has_styles else text

    def line(self, text: str = "") -> None:
        """One line, shown at once."""
        print(text, file=self.stream, flush=True)

    def heading(self, text: str) -> None:
        """A line that starts a section."""
        self.line()
        self.line(self.styled("bold", text))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns as wide as their widest cell."""
        cells = [[Text(cell) for cell in row] for row in rows]
        head, *lines = plain_table(header, cells, [False] * len(header))
        for line in (self.styled("dim", head), *lines):
            self.line(f"  {line}")
