"""The opcodes of the two scripts (`scripts.py`): one character, before the arguments of a request.

Python uses the names. The scripts compare the characters, and name them in comments. No opcode is
stored.
"""

from __future__ import annotations

from enum import StrEnum


class Request(StrEnum):
    """What the script that reads is asked for. Each request has one reply."""

    ENTRY = "E"
    """The thread's entry, and its latest root checkpoint by the index."""
    ROWS = "G"
    """`n field…`: rows."""
    RANGE = "R"
    """`from to limit`: fields of the index, in their order."""
    RANGE_BACKWARDS = "V"
    """`from to limit`: fields of the index, the last one first."""
    CHAINS = "F"
    """`parents n field…`: rows, and all rows that they are differences from; with `parents` 1, all
    ancestors of checkpoints."""
    ALL_ROWS = "A"
    """All rows of the thread."""
    COUNTS = "C"
    """How many rows, checkpoints and writes the thread has."""
    CHECKPOINT = "O"
    """`namespace id`: all that one checkpoint is read from; with an empty id, the latest. The reply
    has the entry as for `ENTRY`; rows as for `CHAINS`: the checkpoint, its parent, the writes of
    both, the checkpoint after each; and for both the id, the fields of their writes, and the field
    of the checkpoint after."""


class Condition(StrEnum):
    """What must hold before the script that writes changes anything."""

    EQUALS = "="
    """`key value`: the entry has this value."""
    DIFFERS = "~"
    """`key value`: the entry has another value."""
    AT_LEAST = ">"
    """`key number`: the entry has this number or a larger one."""
    IS_NEW = "!"
    """The thread does not exist."""
    COUNT = "#"
    """`from to n`: a part of the index has exactly n fields."""


class Change(StrEnum):
    """What the script that writes does to a thread."""

    SET_VALUE = "E"
    """`key value`: set a value of the entry."""
    RAISE_VALUE = "M"
    """`key value`: set a value of the entry, if it sorts after the present one."""
    REMOVE_VALUE = "X"
    """`key`: remove a value of the entry."""
    PUT_ROW = "S"
    """`field row`: add a row, or replace it."""
    ADD_ROW = "N"
    """`field row`: add a row, unless it exists."""
    UPDATE_ROW = "U"
    """`field n (number cell)…`: replace cells of a row, if the row exists."""
    DELETE_ROW = "D"
    """`field`: remove a row."""
    DELETE_THREAD = "K"
    """Remove the thread. No change follows."""
