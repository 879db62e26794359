"""How threads and checkpoints are named in one text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from milepost.inspect._errors import BadReferenceError

_BACK = re.compile(r"~(\d*)\Z")


@dataclass(frozen=True, slots=True)
class Ref:
    """A thread, a graph in it, and perhaps one checkpoint.

    | text | what is meant |
    | --- | --- |
    | `THREAD` | the latest checkpoint |
    | `THREAD@1f0c2` | the only checkpoint whose id begins or ends with this |
    | `THREAD@TAG` | the checkpoint with this tag |
    | `THREAD@~3` | three checkpoints before the latest, from parent to parent |
    | `THREAD@TAG~2` | two before that one |
    | `THREAD/NAMESPACE@…` | the same in an inner graph |

    An id of a thread that has `@`, `/` or `%` in it is written with `%40`, `%2F` and `%25`.

    Examples:
        >>> Ref.parse("trip@~1")
        Ref(thread_id='trip', namespace='', at=None, back=1)
    """

    thread_id: str
    """The thread."""
    namespace: str = ""
    """The graph: "" for the outermost."""
    at: str | None = None
    """An id, the beginning or end of one, or a tag; None means the latest."""
    back: int = 0
    """So many parents before that."""

    @classmethod
    def parse(cls, text: str) -> Ref:
        """The reference that a text means.

        Args:
            text: As in the table.

        Raises:
            BadReferenceError: It means none.
        """
        place, at_sign, at = text.rpartition("@") if "@" in text else (text, "", "")
        thread, slash, namespace = place.partition("/")
        if not thread:
            raise BadReferenceError(
                f"'{text}' names no thread. Write THREAD, THREAD@CHECKPOINT, THREAD@TAG or "
                "THREAD@~3; in an inner graph THREAD/NAMESPACE@CHECKPOINT."
            )
        if (at_sign and not at) or (slash and not namespace):
            raise BadReferenceError(f"'{text}' ends too early: write THREAD, or THREAD@CHECKPOINT.")
        back = 0
        if found := _BACK.search(at):
            back = int(found[1] or 1) if len(found[1]) < 10 else -1
            at = at[: found.start()]
            if back < 0:
                raise BadReferenceError(f"'{text}' goes back further than any thread.")
        return cls(_plain(thread), _plain(namespace), _plain(at) or None, back)

    def __str__(self) -> str:
        text = _quoted(self.thread_id)
        if self.namespace:
            text += f"/{self.namespace.replace('%', '%25').replace('@', '%40')}"
        if self.at is not None or self.back:
            text += f"@{_quoted(self.at or '')}{f'~{self.back}' if self.back else ''}"
        return text


def _plain(text: str) -> str:
    for code, sign in (("%40", "@"), ("%2F", "/"), ("%2f", "/"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace("@", "%40").replace("/", "%2F")
