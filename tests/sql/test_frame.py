"""Frames of many channels share what they have in common, and say the same as if they did not."""

import random
from typing import Any, TypedDict

import pytest

from graphs import thread
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.commit import Fence, NewCheckpoint, StepCommit
from milepost.checkpoint.sql import frames
from milepost.checkpoint.sql.frame import Frame
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph


def plain(frame: Frame) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return dict(frame.versions), dict(frame.seen), dict(frame.inline)


@pytest.mark.parametrize("width", [1, 63, 64, 500])
@pytest.mark.parametrize("spread", [2, 200])
def test_a_frame_after_changes_is_what_copies_would_be(width, spread):
    pick = random.Random(width * spread)
    versions = {f"c{n}": "0" for n in range(width)}
    seen: dict[str, Any] = {"a": {"c0": "0"}}
    inline: dict[str, Any] = dict.fromkeys(versions, False)
    frame = Frame(dict(versions), dict(seen), dict(inline))
    for step in range(1, 300):
        names = {f"c{pick.randrange(min(spread, width + step // 50))}" for _ in range(3)}
        node = f"n{pick.randrange(spread)}"
        changed = {name: str(step) for name in names}
        held = {name: pick.choice([None, False, ["k", b"%d" % step]]) for name in names}
        versions |= changed
        inline |= held
        seen[node] = dict(changed)
        changes = frames.changes(frame, versions, seen, held, [node])
        assert changes is not None
        before = plain(frame) if step % 7 == 0 else None  # mostly nobody looks at all of it
        later = frame.after(changes, len(versions), len(seen))
        assert (later.width, later.nodes) == (len(versions), len(seen))
        version_of, held_for, seen_by = later.lookups()
        for name in (*names, "c0", "none"):
            assert version_of(name) == versions.get(name)
            assert held_for(name) == inline.get(name)
        assert [seen_by(name) for name in (node, "a", "none")] == [changed, seen["a"], None]
        assert before is None or plain(frame) == before
        frame = later
    assert plain(frame) == (versions, seen, inline)
    assert frame.large() == [(n, versions[n]) for n, held in inline.items() if held is False]


def test_what_a_frame_does_not_have_is_an_error():
    frame = Frame(dict.fromkeys(map(str, range(99)), "1"), {}, {}).after(Frame({}, {}, {}), 99, 0)
    with pytest.raises(AttributeError, match="other"):
        frame.other  # type: ignore[attr-defined]


def test_a_step_of_a_wide_state_copies_none_of_its_channels(path):
    keys = {f"key{n}": int for n in range(500)}
    builder = StateGraph(TypedDict("Wide", {"n": int, **keys}))
    builder.add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["n"] < 20 else END)
    with SqliteSaver.from_conn_string(path) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"n": 0, **dict.fromkeys(keys, 1)}, thread("t"), durability="sync")
        known = saver._memory._threads["t"][""].frames
        assert len(known) > 1
        assert len({id(frame.frame._layers()[0]) for frame in known}) == 1
        stored = list(saver.list(thread("t")))
    with SqliteSaver.from_conn_string(path) as other:
        assert [found.checkpoint for found in other.list(thread("t"))] == [
            found.checkpoint for found in stored
        ]
        assert len(stored[0].checkpoint["channel_versions"]) > 500


IDS = [f"1f000000-0000-6000-8000-{number:012}" for number in range(3)]


def prepared(saver: SqliteSaver, fence: Fence, at: int, versions: dict[str, Any], **changed: Any):
    checkpoint = {**empty_checkpoint(), "id": IDS[at], "channel_versions": versions}
    metadata: Any = {"source": "loop", "step": at, "parents": {}}
    new = NewCheckpoint(checkpoint, metadata, changed, dict)  # type: ignore[arg-type]
    return saver.prepare(StepCommit("t", "", IDS[at - 1] if at else None, [], new, fence))


def test_a_frame_may_be_completed_while_the_next_one_is_made(path, monkeypatch):
    with SqliteSaver.from_conn_string(path) as saver:
        assert saver.commit([prepared(saver, Fence(None), 0, {"a": "1", "b": "1"}, a=1, b=2)])
    after = Frame.after
    with SqliteSaver.from_conn_string(path) as saver:  # which has forgotten what the parent holds
        fence = Fence(IDS[0])
        first = prepared(saver, fence, 1, {"a": "2", "b": "1"}, a=3)

        def meanwhile(frame: Frame, *changes: Any) -> Frame:
            made = after(frame, *changes)
            assert saver.commit([first]) == [None]
            return made

        monkeypatch.setattr(Frame, "after", meanwhile)
        second = prepared(saver, fence, 2, {"a": "3", "b": "1"}, a=4)
        assert saver.commit([second]) == [None]
        found = saver.get_tuple(thread("t"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 4, "b": 2}
