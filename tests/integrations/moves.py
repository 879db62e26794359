"""The two commands, and what the tests of them share."""

from __future__ import annotations

from milepost.cli import main


def move_in(theirs: str, ours: str, *options: str) -> int:
    return main(["import", "--from-langgraph", theirs, "--to", ours, *options])


def move_out(ours: str, theirs: str, *options: str) -> int:
    return main(["export", "--from", ours, "--to-langgraph", theirs, *options])
