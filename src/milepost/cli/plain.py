"""Text that cannot do anything to a terminal.

What is shown comes from databases: names, messages, keys. A control character in it could move the
cursor, change the title or the clipboard, or turn the direction of the text. All of them are
shown as escapes.
"""

from __future__ import annotations

import re
from typing import Final

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
