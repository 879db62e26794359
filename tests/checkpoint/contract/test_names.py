"""One rule for ids and names: what one saver refuses, all of them refuse, with the same words."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import TypedDict

from milepost.checkpoint._contract.names import LONGEST, check_name
from milepost.checkpoint.base import empty_checkpoint
from milepost.errors import InvalidIdError
from milepost.graph import START, StateGraph

NO_NAMES = {
    "NUL": "a\0b",
    "NUL beside other text": "é\0",
    "half a pair": "a\ud800",
    "too long": "x" * (LONGEST + 1),
}
NO_TEXT = {"bytes": b"id", "list": ["id"], "number": 7}


def of(thread_id: Any = "t", ns: Any = "", id: Any = None) -> Any:
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": configurable if id is None else {**configurable, "checkpoint_id": id}}


def checkpoint(channel: Any = "key", version: Any = None, **changes: Any) -> Any:
    version = "00000001.x" if version is None else version
    return {
        **empty_checkpoint(),
        "channel_values": {channel: "value"},
        "channel_versions": {channel: version},
        **changes,
    }


def put(config: Any, stored: Any, metadata: Any = None) -> Any:
    return ("put", config, stored, metadata or {"source": "loop"}, stored["channel_versions"])


BY_TEXT = {
    "thread_id": {
        "get_tuple": lambda name: ("get_tuple", of(name)),
        "list": lambda name: ("list", of(name)),
        "put": lambda name: put(of(name), checkpoint()),
        "put_writes": lambda name: ("put_writes", of(name, "", "0"), [("key", 1)], "task"),
        "delete_thread": lambda name: ("delete_thread", name),
        "copy_thread, from": lambda name: ("copy_thread", name, "other"),
        "copy_thread, to": lambda name: ("copy_thread", "t", name),
        "get_thread": lambda name: ("get_thread", name),
        "set_thread_metadata": lambda name: ("set_thread_metadata", name, {}),
        "prune": lambda name: ("prune", [name]),
        "erase": lambda name: ("erase", [name]),
        "delta": lambda name: ("get_delta_channel_history", of(name), ["key"]),
    },
    "version": {"put": lambda name: put(of(), checkpoint(version=name))},
    "run_id": {
        "delete_for_runs": lambda name: ("delete_for_runs", [name]),
        "put": lambda name: put(of(), checkpoint(), {"source": "loop", "run_id": name}),
    },
}
"""Where numbers and UUIDs are taken as their text."""

LITERALLY = {
    "checkpoint_ns": {
        "get_tuple": lambda name: ("get_tuple", of(ns=name)),
        "list": lambda name: ("list", of(ns=name)),
        "put": lambda name: put(of(ns=name), checkpoint()),
        "put_writes": lambda name: ("put_writes", of("t", name, "0"), [("key", 1)], "task"),
        "delta": lambda name: ("get_delta_channel_history", of(ns=name), ["key"]),
    },
    "checkpoint_id": {
        "get_tuple": lambda name: ("get_tuple", of(id=name)),
        "list": lambda name: ("list", of(id=name)),
        "before": lambda name: ("list", of(), None, of(id=name)),
        "parent": lambda name: put(of(id=name), checkpoint()),
        "put": lambda name: put(of(), checkpoint(id=name)),
        "put_writes": lambda name: ("put_writes", of(id=name), [("key", 1)], "task"),
        "delta": lambda name: ("get_delta_channel_history", of(id=name), ["key"]),
    },
    "task_id": {"put_writes": lambda name: ("put_writes", of(id="0"), [("key", 1)], name)},
    "task_path": {"put_writes": lambda name: ("put_writes", of(id="0"), [("key", 1)], "task", name)},
    "channel": {
        "put": lambda name: put(of(), checkpoint(tuple(name) if type(name) is list else name)),
        "put, without a value": lambda name: put(
            of(), checkpoint(tuple(name) if type(name) is list else name, channel_values={})
        ),
        "put_writes": lambda name: (
            "put_writes", of(id="0"), [(tuple(name) if type(name) is list else name, 1)], "task"
        ),
    },
}  # fmt: skip

CASES = [
    pytest.param(what, call, names, id=f"{what}, {where}")
    for slots, names in ((BY_TEXT, NO_NAMES), (LITERALLY, {**NO_NAMES, **NO_TEXT}))
    for what, calls in slots.items()
    for where, call in calls.items()
]


@pytest.mark.parametrize(("what", "call", "names"), CASES)
def test_a_name_that_a_database_cannot_hold_is_refused(run, saver, what, call, names):
    for name in names.values():
        method, *arguments = call(name)
        keywords = {}
        if method == "get_delta_channel_history":
            keywords = dict(zip(("config", "channels"), arguments, strict=True))
            arguments = []
        elif method == "list":
            keywords = dict(zip(("filter", "before"), arguments[1:], strict=False))
            arguments = arguments[:1]
        with pytest.raises(InvalidIdError) as caught:
            run.saver(saver, method, *arguments, **keywords)
        with pytest.raises(InvalidIdError) as expected:
            check_name(what, tuple(name) if what == "channel" and type(name) is list else name)
        assert str(caught.value) == str(expected.value)
        assert run.saver(saver, "list_threads") == []
        assert run.saver(saver, "list", None) == []


@pytest.mark.parametrize("thread_id", NO_NAMES.values(), ids=NO_NAMES)
def test_a_run_on_such_a_thread_is_refused_before_a_node_has_run(run, saver, durability, thread_id):
    ran = []
    builder = StateGraph(TypedDict("State", {"key": Any}))
    builder.add_node("node", lambda state: ran.append(state) or {"key": 2})
    builder.add_edge(START, "node")
    with pytest.raises(InvalidIdError, match="thread_id"):
        run.invoke(builder.compile(saver), {"key": 1}, of(thread_id), durability=durability)
    assert ran == []
    assert run.saver(saver, "list_threads") == []


@pytest.mark.parametrize("channel", ["a\0b", "x" * (LONGEST + 1)], ids=["NUL", "too long"])
def test_a_key_of_the_state_that_no_database_can_hold_is_refused(run, saver, durability, channel):
    """Half of a pair is refused as well, but in the input, which has it as a key."""
    builder = StateGraph(TypedDict("State", {channel: Any}))
    builder.add_node("node", lambda state: {channel: "value"})
    builder.add_edge(START, "node")
    with pytest.raises(InvalidIdError, match="channel"):
        run.invoke(builder.compile(saver), {channel: 1}, of(), durability=durability)
