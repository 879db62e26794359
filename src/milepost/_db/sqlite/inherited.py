"""Connections to SQLite files that a forked child has inherited, and that an engine may not close.

SQLite keeps one record per process of the locks on a file, and a child inherits a copy of that
record. While an inherited connection is open, the record holds locks that only the parent has. A
new connection to the same file would rely on them: the parent, when it closes the file, would take
itself for the last, delete the write-ahead log under the child, and all that the child stores from
then on would be lost. So a child is refused a file that it still has open from before the fork.

Connections that an engine has used are known. Of others (the program's own) only the descriptors
are, where the system lists them. A descriptor's number may be used again after it was closed, so
descriptors are looked at before a connection of ours is opened, and never after.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from typing import Final, TypeAlias

from milepost._internal import fork_guard
from milepost.errors import ForkedProcessError

_FileId: TypeAlias = "tuple[int, int]"
_DESCRIPTORS: Final = "/dev/fd"

_connections: dict[_FileId, list[sqlite3.Connection]] = {}
_descriptors: dict[_FileId, list[int]] = {}


def keep(path: str | None, connection: sqlite3.Connection) -> None:
    """Remember, in a child, a connection that is not ours to close."""
    file = _id_of_path(path)
    if file is not None:
        _connections.setdefault(file, []).append(connection)


def refuse_path(path: str) -> None:
    """Refuse a file that is open from before the fork; to be called before it is opened."""
    if not (_connections or _descriptors):
        return
    refuse_known(path)
    file = _id_of_path(path)
    if file is None:
        return
    if any(_id_of_descriptor(number) == file for number in _descriptors.get(file, ())):
        raise ForkedProcessError(_OPEN_BEFORE.format(path=path))
    _descriptors.pop(file, None)  # from here on, the file is open through new descriptors


def refuse_known(path: str | None) -> None:
    """`refuse_path`, for a file that is open by now: descriptors say nothing any more."""
    file = _id_of_path(path) if _connections else None
    if file is not None and any(map(_is_open, _connections.get(file, ()))):
        raise ForkedProcessError(_OPEN_BEFORE.format(path=path))


def _note_descriptors() -> None:
    """Remember the files that are open when every engine has closed its own."""
    _descriptors.clear()
    try:
        numbers = [int(name) for name in os.listdir(_DESCRIPTORS)]
    except OSError:  # the system does not list them
        return
    for number in numbers:
        file = _id_of_descriptor(number)
        if file is not None:
            _descriptors.setdefault(file, []).append(number)


fork_guard.last_in_child(_note_descriptors)


def _id_of_descriptor(number: int) -> _FileId | None:
    try:
        found = os.fstat(number)
    except OSError:  # closed
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _id_of_path(path: str | None) -> _FileId | None:
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError:  # not there, so nothing that is open is this file
        return None
    return (found.st_dev, found.st_ino)


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        _ = connection.in_transaction
    except sqlite3.ProgrammingError:
        return False
    return True


_OPEN_BEFORE: Final = (
    "This process was forked while another connection to '{path}' was open, and that connection is "
    "open here, too. SQLite would take the parent's locks for this process's, and what is stored "
    "here could be lost. Open that connection after the fork, or close it before; to close it in "
    "this process, before the file is used here, is enough as well."
)
