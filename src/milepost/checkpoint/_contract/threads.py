"""Records of the registry of threads, and the rules for what pruning keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from milepost._internal.texts import is_utf8
from milepost.constants import BRANCH_TO, START, TASKS
from milepost.errors import (
    BrokenChainError,
    CheckpointError,
    CheckpointNotFoundError,
    DecryptionError,
)
from milepost.types import MISSING

STATUSES: Final = ("idle", "interrupted", "error", "running", "stale")


class ThreadInfo(NamedTuple):
    """A thread, as the registry knows it."""

    thread_id: str
    status: str
    """idle, interrupted, error or running; stale if the lease of a run is over."""
    created_at: float
    updated_at: float
    head: str | None
    """The latest checkpoint."""
    metadata: dict[str, Any]
    """What `create_thread`, a run or `set_thread_metadata` has stored."""
    checkpoints: int | None = None
    """Counts and bytes are set only by `get_thread`."""
    writes: int | None = None
    bytes: int | None = None


class ThreadFilter(NamedTuple):
    """The conditions of `list_threads`, all of which must hold."""

    metadata: Mapping[str, Any] = {}
    status: str | None = None
    prefix: str | None = None
    updated_after: float | None = None
    updated_before: float | None = None
    after: str | None = None
    """The last thread of the page before."""
    limit: int = 100

    def check(self) -> None:
        """Raise ValueError for an unknown status, an impossible limit, or metadata that no thread
        can have."""
        if not isinstance(self.limit, int) or not 0 <= self.limit < 2**63:
            raise ValueError(f"limit must be a number of threads, not {self.limit!r}.")
        if self.status is not None and self.status not in STATUSES:
            raise ValueError(f"Unknown status '{self.status}': use one of {', '.join(STATUSES)}.")
        _check_pairs(self.metadata)

    def check_removal(self) -> None:
        """The same for threads that are to be removed: the filter must say which."""
        self.check()
        if self._has_no_tag:
            raise ValueError(
                "An empty list of tags does not say which threads are meant: name tags, as in "
                "metadata={'tags': ['trial']}, or leave 'tags' out."
            )

    @property
    def finds_none(self) -> bool:
        """Whether no thread can meet the conditions: an empty list of tags is asked for, or text
        that no id has."""
        return self._has_no_tag or not (may_be_stored(self.prefix) and may_be_stored(self.after))

    @property
    def _has_no_tag(self) -> bool:
        return "tags" in self.metadata and not tags_asked_for(self.metadata["tags"])


@dataclass(slots=True)
class Removed:
    """What a call removed, or with `dry_run` would remove."""

    threads: list[str] = field(default_factory=list)
    """Threads that were removed as a whole."""
    checkpoints: int = 0
    writes: int = 0
    values: int = 0

    def add(self, other: Removed) -> None:
        """Add the counts of another call."""
        self.threads += other.threads
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values


class Problem(NamedTuple):
    """A row that cannot be read, or that no other row refers to."""

    thread_id: str
    checkpoint_ns: str
    table: str
    key: str
    reason: str


def is_trigger(channel: str) -> bool:
    """Whether a channel has a value only while a task is still to run."""
    return channel in (START, TASKS) or channel.startswith(BRANCH_TO)


def status_left(changed: Mapping[str, Any]) -> str:
    """The thread's status after a checkpoint of a foreign runtime, from the channels that changed.

    The next step empties a trigger channel, so a trigger with a value means that a task waits. The
    channel of Sends becomes an empty list instead.
    """
    waits = any(
        is_trigger(channel) and value is not MISSING and (channel != TASKS or bool(value))
        for channel, value in changed.items()
    )
    return "running" if waits else "idle"


def passes_filter(info: ThreadInfo, wanted: ThreadFilter) -> bool:
    """Whether a thread meets the conditions of `list_threads`."""
    return (
        (wanted.after is None or info.thread_id > wanted.after)
        and (wanted.prefix is None or info.thread_id.startswith(wanted.prefix))
        and (wanted.status is None or info.status == wanted.status)
        and (wanted.updated_after is None or info.updated_at > wanted.updated_after)
        and (wanted.updated_before is None or info.updated_at < wanted.updated_before)
        and has_pairs(info.metadata, wanted.metadata)
    )


def has_pairs(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all pairs of a filter hold for the metadata of a thread."""
    return all(_matches(metadata, *item) for item in wanted.items())


def _check_pairs(metadata: Mapping[str, Any]) -> None:
    """Raise for a filter that the savers could understand in different ways."""
    if not isinstance(metadata, Mapping):
        raise TypeError(
            "A filter on metadata must be a mapping of keys and values, as in {'owner': 'ann'}, "
            f"not {type(metadata).__name__}."
        )
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ValueError(f"A filter on metadata has a key that is no text: {key!r:.60}.")
        if key == "tags":
            tags_asked_for(value)
        elif key != "owner":
            try:
                json_text(value)
            except ValueError as error:
                raise ValueError(
                    f"The filter on '{key}' must be plain JSON, as the metadata of threads is: "
                    f"{error}."
                ) from error


def json_text(value: object) -> str:
    """JSON that every database can take; raises ValueError with the reason if there is none."""
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=True)
    except TypeError as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > _LEVELS and _is_deeper(value, _LEVELS):
        raise ValueError(_TOO_DEEP)
    return text


_LEVELS: Final = 200
"""Lists and dicts within each other. Python gives up at about 1,000, or a multiple of it, and so
does SQLite, which then cannot look for anything."""
_TOO_DEEP: Final = f"it has more than {_LEVELS} lists and dicts within each other"


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return False
    return levels == 0 or any(_is_deeper(inner, levels - 1) for inner in value)


def tags_asked_for(value: object) -> list[str]:
    """The tags that a filter asks for: one text, or several in a list."""
    if isinstance(value, str):
        return [value]
    wanted = "The filter on 'tags' must be a text or a list of texts"
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError(f"{wanted}, not {'None' if value is None else type(value).__name__}.")
    if None in value:
        raise ValueError(f"{wanted}; None is none.")
    return [str(tag) for tag in value]


def tags_of(value: object) -> list[str]:
    """The tags in the metadata of a thread: the texts of a list, or one text."""
    if isinstance(value, str):
        return [value]
    return [tag for tag in value if isinstance(tag, str)] if isinstance(value, list) else []


def _matches(metadata: Mapping[str, Any], key: str, value: Any) -> bool:
    if key == "owner":
        owner = metadata.get("owner")
        return owner is not None and str(owner) == str(value)
    if key == "tags":
        wanted, tags = tags_asked_for(value), tags_of(metadata.get("tags"))
        return bool(wanted) and all(tag in tags for tag in wanted)
    # Compared as text, since Python takes 1, true and 1.0 for equal.
    return key in metadata and json.dumps(metadata[key], sort_keys=True) == json.dumps(
        value, sort_keys=True
    )


def no_such_thread(thread_id: str) -> CheckpointNotFoundError:
    """The error for metadata of a thread that does not exist."""
    return CheckpointNotFoundError(
        f"There is no thread '{thread_id}'. Its first checkpoint makes it, or create_thread()."
    )


def not_judged(thread_ids: Sequence[str], removed: Removed | None = None) -> DecryptionError:
    """The error for threads of which it cannot be told whether a filter on metadata finds them.

    `removed` is what was removed nevertheless: the threads that the filter does find.
    """
    count, shown = len(thread_ids), ", ".join(f"'{id}'" for id in thread_ids[:5])
    shown += f" and {count - 5} more" if count > 5 else ""
    done = ""
    if removed is not None:
        done = f" {len(removed.threads)} of the other threads were found and removed."
    return DecryptionError(
        f"It cannot be told whether the filter finds {count} "
        f"{'thread' if count == 1 else 'threads'} ({shown}): what it asks for is sealed there, and "
        "this saver does not have the key. Pass serde=EncryptedSerializer(...) with that key (for "
        "the command line: MILEPOST_AES_KEY) and repeat the call, or name the threads by their "
        f"ids.{done}"
    )


def parent_gone(thread_id: str, id: str | None, parent_id: str) -> BrokenChainError:
    """The error for a parent that was removed while a run was building on it.

    `id` is the new checkpoint; None if the step has only writes, which belong to the parent.
    """
    what = "What a task wrote in" if id is None else f"Checkpoint '{id}' of"
    return BrokenChainError(
        f"{what} thread '{thread_id}' builds on checkpoint '{parent_id}', which is gone. "
        "Nothing of this step was stored. Load the thread again and repeat the call."
    )


def checkpoint_gone(thread_id: str, id: str) -> CheckpointNotFoundError:
    """The error for a checkpoint that the caller has named and that does not exist."""
    return CheckpointNotFoundError(
        f"Thread '{thread_id}' has no checkpoint '{id}'. If it was there a moment ago, the thread "
        "was deleted, pruned or restored while it was read: read it again. "
        "get_state_history(config) lists the checkpoints that it has."
    )


def copy_refused(target: str) -> CheckpointError:
    """The error for a copy to a thread that exists."""
    return CheckpointError(
        f"Thread '{target}' exists already, and a copy would mix two histories. Delete it "
        "first, or choose another id."
    )


def may_be_stored(value: Any) -> bool:
    """Whether every database can hold a parameter. With any other parameter no row can match."""
    if not isinstance(value, str):
        return True
    plain = value.replace("\\\\", "")
    return "\0" not in plain and not _UNSTORABLE.search(plain) and is_utf8(value)


_UNSTORABLE: Final = re.compile(
    r"\\u0000|\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]"
)
"""In JSON text: a NUL character, or half of a surrogate pair."""
