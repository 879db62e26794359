"""What no line of the log may hold, and where tests put it."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from fnmatch import fnmatchcase
from typing import Any

import pytest

from milepost._internal import log
from milepost.errors import MilepostError, SerdeError

CANARY = "canary"
"""Part of every value, key, password and error text here, and of no name."""
KEY = b"canary-key-16byt"
CONFIG: Any = {
    "configurable": {"thread_id": "t", "api_key": "canary-config"},
    "metadata": {"owner": "canary-metadata"},
    "tags": ["canary-tag"],
}
LARGE = ["canary-value" * 20]
"""Too large for a checkpoint's own row."""

Told = tuple[str, str, str]
"""Logger, level and message; `*` and `?` where a message is not the same each time."""


class Trouble(Exception):
    def __init__(self) -> None:
        super().__init__("canary-error")


class Lines(logging.Handler):
    """Collects records of every level, and which exceptions were within reach of each."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []
        self.reachable: dict[str, str] = {}
        """Message without its arguments → the texts of exceptions that it could have shown."""

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def spy_on(self, patch: pytest.MonkeyPatch) -> None:
        """Note the exceptions of each call of `log`: its arguments, and the one that is handled."""
        emit = log._log
        # What our own errors say is for the caller, too.
        for kind in (MilepostError, SerdeError):
            patch.setattr(kind, "__str__", lambda _: "canary-error")

        def spied(logger: str, level: int, message: str, args: tuple[object, ...]) -> None:
            errors = [arg for arg in (*args, sys.exception()) if isinstance(arg, BaseException)]
            if errors:
                texts = [text for one in errors for text in traceback.format_exception(one)]
                self.reachable[message] = self.reachable.get(message, "") + "".join(texts)
            emit(logger, level, message, args)

        patch.setattr(log, "_log", spied)

    def have(self, message: str) -> bool:
        return any(message in record.getMessage() for record in self.records)

    def notable(self) -> list[str]:
        return [r.getMessage() for r in self.records if r.levelno >= logging.INFO]

    def told(self) -> list[Told]:
        return [(r.name, r.levelname, r.getMessage()) for r in self.records]

    def blind(self) -> list[str]:
        """Messages that could show an exception in which there is nothing to be found."""
        return [message for message, texts in self.reachable.items() if CANARY not in texts]

    def leaks(self) -> list[str]:
        """Lines that show what they must not, as a handler formats them or in their fields."""
        shown = [logging.Formatter().format(r) + repr(vars(r)) for r in self.records]
        return [line for line in shown if re.search(f"{CANARY}|{KEY.hex()}", line)]


def unlike(told: list[Told], expected: list[Told]) -> tuple[list[Told], list[Told]]:
    """Lines that were not expected, and expected ones that are missing. Each counts once."""
    missing, more = list(expected), []
    for line in told:
        for one in missing:
            if line[:2] == one[:2] and fnmatchcase(line[2], one[2]):
                missing.remove(one)
                break
        else:
            more.append(line)
    return more, missing
