"""Checks ids and names that come from outside. A sound name is stored literally, as a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost._internal.texts import is_utf8
from milepost.errors import InvalidIdError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._contract.records import Place
    from milepost.checkpoint._contract.step_saver import NewCheckpoint, TaskWrites

LONGEST: Final = 1024
"""Characters of a name. Longer keys do not fit into a PostgreSQL index."""
_MOST_SOUND: Final = 10_000
"""Names that are cached as sound."""


def check_name(what: str, name: Any) -> str:
    """`name`, if every database can hold it."""
    if not isinstance(name, str):
        raise InvalidIdError(f"{what} must be text, not {type(name).__name__}: {_shown(name)}.")
    if len(name) > LONGEST:
        raise InvalidIdError(
            f"{what} has {len(name)} characters; at most {LONGEST} can be stored: {_shown(name)}."
        )
    if not name.isascii() and not is_utf8(name):
        raise InvalidIdError(
            f"{what} contains half of a surrogate pair, which is no text: {_shown(name)}."
        )
    if "\0" in name:
        raise InvalidIdError(f"{what} contains a NUL character: {_shown(name)}.")
    return name


def check_place(place: Place) -> Place:
    """`place`, if every part of it can be stored."""
    check_name("thread_id", place.thread_id)
    check_name("checkpoint_ns", place.checkpoint_ns)
    if place.checkpoint_id is not None:
        check_name("checkpoint_id", place.checkpoint_id)
    return place


class NameChecker:
    """Checks the names of a step, in the same way for every saver.

    A name that comes up in every step of our runs is checked once.
    """

    def __init__(self) -> None:
        self._sound: set[str] = set()

    def checkpoint(self, place: Place, new: NewCheckpoint) -> None:
        """Check the names in a foreign runtime's `put`."""
        check_place(place)
        check_name("checkpoint_id", new.id)
        for version in new.versions.values():
            check_name("version", str(version))
        self.check(place, (), new)

    def writes(self, place: Place, task: TaskWrites) -> None:
        """Check the names in a foreign runtime's `put_writes`."""
        check_place(place)
        if place.checkpoint_id is None:
            raise ValueError(
                f"put_writes needs to know which checkpoint of thread '{place.thread_id}' the "
                "writes belong to: pass its checkpoint_id in the config."
            )
        check_name("task_id", task.task_id)
        check_name("task_path", task.task_path)
        for channel, _ in task.writes:
            check_name("channel", channel)

    def check(self, place: Place, tasks: Sequence[TaskWrites], new: NewCheckpoint | None) -> None:
        """Check the names in a step.

        Checkpoint ids and task ids are not checked: our runs have made or read these.
        """
        # Each name is looked up here: every step is checked, and most names are known as sound.
        sound = self._sound
        if place.thread_id not in sound:
            self._check("thread_id", place.thread_id)
        if place.checkpoint_ns not in sound:
            self._check("checkpoint_ns", place.checkpoint_ns)
        for task in tasks:
            if task.task_path not in sound:
                self._check("task_path", task.task_path)
            for channel, _ in task.writes:
                if channel not in sound:
                    self._check("channel", channel)
        if new is not None:
            if (run_id := new.metadata.get("run_id")) is not None:
                check_name("run_id", str(run_id))
            for channel in new.changed:
                if channel not in sound:
                    self._check("channel", channel)

    def _check(self, what: str, name: Any) -> None:
        check_name(what, name)
        if len(self._sound) >= _MOST_SOUND:
            self._sound.clear()
        self._sound.add(name)


def _shown(name: Any) -> str:
    text = repr(name)
    return text if len(text) <= 60 else f"{text[:60]}…"
