"""Room in the log file of an SQLite database.

A commit that makes the log longer has to make its new length durable too, and for that most file
systems write to a journal of their own: such a commit takes nearly twice as long as one that finds
room. SQLite's log has room only after it was full once and is written over from its start. Until
then room is made here, in growing pieces: zeros, which end the log for whoever reads it. They are
appended, so that they can never overwrite anything.
"""

from __future__ import annotations

import os
from typing import Final

_LEAST: Final = 64 * 1024
_MOST: Final = 1024 * 1024
"""Bytes that are added at once: as many as there are, within these bounds."""
_TAIL: Final = 64
"""Bytes at the end that tell room from what was logged."""


class LogRoom:
    """Watches the log of one database."""

    __slots__ = ("_file", "_path", "_size")

    def __init__(self, database: str) -> None:
        self._path = f"{database}-wal"
        self._size: int | None = None
        """When it was last looked at."""
        self._file: int | None = None
        """Kept open, as the log is there for as long as a connection is: to open it for each commit
        would take longer than all else that is done here."""

    def is_used_up(self) -> bool:
        """Whether the log has become longer since this was last asked, so that room is wanted."""
        if not self._path:
            return False
        try:
            size = self._length()
        except OSError:
            self._path = ""
            return False
        if size == self._size:
            return False
        # The first look tells nothing: a short life needs no room.
        if self._size is not None and size > self._size:
            return True
        self._size = size
        return False

    def make(self) -> None:
        """Make room. To be called inside a transaction that writes: nobody else can write to the
        log meanwhile, or cut it off.

        Without room a commit only takes longer, so a failure is no error.
        """
        try:
            self._size = self._lengthened()
        except OSError:
            self._path = ""

    def _lengthened(self) -> int:
        log = os.open(self._path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.lseek(log, -_TAIL, os.SEEK_END) + _TAIL
            # Otherwise somebody else has made room.
            if any(os.read(log, _TAIL)):
                size += os.write(log, bytes(min(max(size, _LEAST), _MOST)))
            return size
        finally:
            os.close(log)

    def _length(self) -> int:
        """Not with `stat`: whoever has asked for a file's times makes the next write to it set them
        exactly, and on Linux since 6.13 the fsync after that waits for the journal as well."""
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY)
        return os.lseek(self._file, 0, os.SEEK_END)

    def close(self) -> None:
        """Look no more: some systems do not delete a file that is open."""
        self._path = ""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        self.close()
