"""Checkpoints from before format 4, put into a saver: the Sends among their parent's writes."""

from typing import Any

import pytest

from milepost.checkpoint.base import create_checkpoint, empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.constants import TASKS
from milepost.graph import START, StateGraph

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


def line_of(saver: Any, sent: dict[int, list[Any]]) -> list[str]:
    """The ids of five checkpoints of format 3, of which some have writes; the fourth is of a run."""
    checkpoint: Any = {**empty_checkpoint(), "v": 3}
    config, found = ROOT, []
    for number in range(5):
        metadata: Any = {"run_id": "gone"} if number == 3 else {}
        config = saver.put(config, checkpoint, metadata, {})
        found.append(checkpoint["id"])
        if number in sent:
            saver.put_writes(config, sent[number], task_id="task")
        checkpoint = create_checkpoint(checkpoint, {}, number)
    return found


def kept(saver: Any, ids: list[str]) -> list[int]:
    return sorted(
        ids.index(found.config["configurable"]["checkpoint_id"]) for found in saver.list(ROOT)
    )


SEND = (TASKS, "a send")
OTHER = ("log", "no send")


@pytest.mark.parametrize("make", [InMemorySaver, None], ids=["memory", "database"])
@pytest.mark.parametrize(
    ("sent", "remove", "left"),
    [
        ({3: [SEND]}, lambda saver: saver.prune(["t"]), [3, 4]),
        ({3: [OTHER, SEND]}, lambda saver: saver.prune(["t"], keep=2), [3, 4]),
        ({n: [SEND] for n in range(4)}, lambda saver: saver.prune(["t"]), [3, 4]),
        ({n: [SEND] for n in range(4)}, lambda saver: saver.prune(["t"], keep=2), [2, 3, 4]),
        ({3: [OTHER]}, lambda saver: saver.prune(["t"]), [4]),
        ({2: [SEND]}, lambda saver: saver.prune(["t"]), [4]),
        ({3: [SEND]}, lambda saver: saver.delete_for_runs(["gone"]), [0, 1, 2, 3, 4]),
        ({3: [OTHER]}, lambda saver: saver.delete_for_runs(["gone"]), [0, 1, 2, 4]),
    ],
)
def test_a_parent_is_kept_for_the_sends_that_a_kept_checkpoint_waits_with(
    saver, make, sent, remove, left
):
    saver = saver if make is None else make()
    ids = line_of(saver, sent)
    dry = saver.prune(["t"], dry_run=True).checkpoints
    assert dry == (3 if 3 in sent and SEND in sent[3] else 4)
    remove(saver)
    assert kept(saver, ids) == left


@pytest.mark.parametrize("make", [InMemorySaver, None], ids=["memory", "database"])
@pytest.mark.parametrize("format", [None, "4"])
def test_a_checkpoint_whose_format_is_no_number_is_read_and_pruned(saver, make, format):
    saver = saver if make is None else make()
    config, checkpoint = ROOT, {**empty_checkpoint(), "v": format}
    for number in range(3):
        config = saver.put(config, checkpoint, {}, {})
        saver.put_writes(config, [SEND], task_id="task")
        checkpoint = {**create_checkpoint(checkpoint, {}, number), "v": format}
    assert [found.checkpoint["v"] for found in saver.list(ROOT)] == [format] * 3
    assert saver.prune(["t"]).checkpoints == 2
    assert saver.get_tuple(ROOT).config == config
    graph = StateGraph(dict).add_node("work", lambda _: {"n": 1}).add_edge(START, "work")
    assert graph.compile(checkpointer=saver).invoke({}, ROOT) == {"n": 1}


def test_pruning_and_copies_keep_them(saver, last):
    saver.prune(["t"])
    saver.copy_thread("t", "u")
    assert shown(saver.get_tuple(ROOT)) == SENDS
    assert shown(saver.get_tuple({"configurable": {"thread_id": "u"}})) == SENDS
