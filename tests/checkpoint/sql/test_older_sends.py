"""Checkpoints from before format 4, put into a saver: the Sends among their parent's writes."""

from typing import Any

import pytest

from milepost.checkpoint.base import create_checkpoint, empty_checkpoint
from milepost.constants import TASKS

ROOT: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
SENDS = {TASKS: ["send-1", "send-2", "send-3"]}


@pytest.fixture
def last(saver: Any) -> Any:
    """The config of a checkpoint after one whose tasks have sent."""
    first: Any = {**empty_checkpoint(), "v": 3}
    config = saver.put(ROOT, first, {}, {})
    saver.put_writes(config, [(TASKS, "send-1"), (TASKS, "send-2")], task_id="task-1")
    saver.put_writes(config, [(TASKS, "send-3")], task_id="task-2")
    return saver.put(config, create_checkpoint(first, {}, 1), {}, {})


def shown(found: Any) -> Any:
    assert (TASKS in found.checkpoint["channel_versions"]) is bool(
        found.checkpoint["channel_values"]
    )
    return found.checkpoint["channel_values"]


def test_the_checkpoint_after_them_has_them(saver, last):
    assert shown(saver.get_tuple(last)) == shown(saver.get_tuple(ROOT)) == SENDS


def test_salvage_says_that_they_are_lost(sqlite):
    first: Any = {**empty_checkpoint(), "v": 3}
    config = sqlite.put(ROOT, first, {}, {})
    sqlite.put_writes(config, [(TASKS, "send-1")], task_id="task-1")
    last = sqlite.put(config, create_checkpoint(first, {}, 1), {}, {})
    sqlite.conn.execute("DELETE FROM checkpoint_writes")
    newest, _ = sqlite.salvage("t")
    assert newest.saved.config == last
    assert newest.saved.checkpoint["channel_values"] == {}
    assert list(newest.lost) == ["Sends of the step before"]


def test_a_listing_has_them_too_where_it_ends_before_the_parent(saver, last):
    assert [shown(found) for found in saver.list(ROOT)] == [SENDS, {}]
    assert [shown(found) for found in saver.list(ROOT, limit=1)] == [SENDS]
    assert [shown(found) for found in saver.list(last, filter={})] == [SENDS]


def test_pruning_and_copies_keep_them(saver, last):
    saver.prune(["t"])
    saver.copy_thread("t", "u")
    assert shown(saver.get_tuple(ROOT)) == SENDS
    assert shown(saver.get_tuple({"configurable": {"thread_id": "u"}})) == SENDS
