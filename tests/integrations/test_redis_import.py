"""Databases of langgraph-checkpoint-redis, imported.

RedisJSON cannot be had from PyPI, so the documents come from recordings: the package in the named
versions has written them, and what its serializer gives back for each value was written down
beside them. `json_server.py` answers from them.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from json_server import JsonServer
from langchain_core.messages import BaseMessage
from moves import move_in

pytest.importorskip("langgraph.checkpoint.serde.jsonplus")
pytest.importorskip("redis")

from milepost.checkpoint._contract.records import Place
from milepost.integrations.langgraph._formats.decoding import StrictSerializer
from milepost.integrations.langgraph._moving.addresses import their_redis_threads
from milepost.types import Interrupt

RECORDINGS = Path(__file__).parent.parent / "data" / "langgraph_redis"
VERSIONS = ["0.0.1", "0.0.8", "0.1.3", "0.2.1", "0.3.9", "0.5.2"]
LOST_WRITES = {("0.0.8", "shallow"), ("0.1.3", "shallow"), ("0.2.1", "shallow")}
"""These remove the writes of one task when another has written."""
COMMANDS = {"CLIENT", "PING", "SELECT", "SCAN", "JSON.GET", "PTTL"}


def recording(version: str, kind: str = "deep") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(_file(version).read_bytes()))[kind]
    return found


def _file(version: str) -> Path:
    return RECORDINGS / f"{version}.json.gz"


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def theirs(told: list[str]) -> Any:
    """A value as LangGraph's serializer gave it back, when it was recorded."""
    kind, body = told
    return StrictSerializer().loads_typed((kind, base64.b64decode(body)))


class Expected:
    """What the program has stored, from what its saver was called with."""

    def __init__(self, version: str, kind: str) -> None:
        self.is_shallow = kind == "shallow"
        self.is_misfiled = version == "0.0.8" and not self.is_shallow
        self.checkpoints: dict[Place, dict[str, Any]] = {}
        self.writes: dict[Place, dict[str, dict[str, Any]]] = {}
        for event in recording(version, kind)["expected"]:
            if "put" in event:
                self._put(event, *event["put"])
            else:
                self.writes.setdefault(Place(*event["writes"]), {})[event["task"]] = event

    def _put(self, event: Any, thread_id: str, ns: str, id: str, parent: str | None) -> None:
        """A shallow saver keeps the last. A misfiled checkpoint replaces its brother."""
        for place, one in list(self.checkpoints.items()):
            replaced = self.is_shallow or (self.is_misfiled and one["parent"] == parent)
            if place[:2] == (thread_id, ns) and replaced:
                del self.checkpoints[place]
        known = None if self.is_shallow else parent
        self.checkpoints[Place(thread_id, ns, id)] = {**event, "parent": known}


@pytest.mark.parametrize("kind", ["deep", "shallow"])
def test_a_database_of_every_layout_is_read_as_the_package_reads_it(version, kind):
    told = recording(version, kind)
    expected = Expected(version, kind)
    strict = StrictSerializer()
    with (
        JsonServer(told["documents"]) as server,
        their_redis_threads(server.url, strict) as read,
    ):
        assert read.size() == len(expected.checkpoints)
        assert not read.damaged()
        assert set(read.threads()) == {place.thread_id for place in expected.checkpoints}
        assert server.commands <= COMMANDS
        for place, wanted in expected.checkpoints.items():
            assert (place.checkpoint_ns, place.checkpoint_id) in read.places(place.thread_id)
            found = read.read(place)
            assert found is not None
            assert found.config == place.config()
            above = found.parent_config and found.parent_config["configurable"]["checkpoint_id"]
            assert above == wanted["parent"]
            assert found.metadata == wanted["metadata"]
            assert found.checkpoint["id"] == place.checkpoint_id
            versions = found.checkpoint["channel_versions"]
            assert {name: str(one) for name, one in versions.items()} == wanted["versions"]
            values = found.checkpoint["channel_values"]
            if place.thread_id == "set":  # 0.3.9 itself reads it as None, with newer LangGraphs
                assert values.get("data", {3}) == {3}
                continue
            wanted_values = {name: theirs(one) for name, one in wanted["values"].items()}
            assert plain(values) == plain(wanted_values)
            wrote = expected.writes.get(place, {})
            if (version, kind) in LOST_WRITES:
                wrote = {task: wrote[task] for task, _, _ in found.pending_writes or ()}
            assert plain(by_task(found)) == {
                task: [
                    [channel, plain(interrupts(channel, theirs(value)))]
                    for channel, value in event["wrote"]
                ]
                for task, event in wrote.items()
            }
            paths = {task: event["path"] for task, event in wrote.items() if event["path"]}
            assert read.paths(place) == paths


def plain(values: Any) -> Any:
    """Without a field that messages had in earlier versions of langchain-core."""
    if isinstance(values, list):
        return [plain(one) for one in values]
    if isinstance(values, dict):
        return {key: plain(one) for key, one in values.items()}
    if isinstance(values, BaseMessage):
        return values.__class__, values.model_dump(exclude={"example"})
    return values


def by_task(found: Any) -> dict[str, list[Any]]:
    wrote: dict[str, list[Any]] = {}
    for task_id, channel, value in found.pending_writes:
        wrote.setdefault(task_id, []).append([channel, value])
    return wrote


def interrupts(channel: str, value: Any) -> Any:
    """0.1 itself reads an interrupt as a dict, with which a run cannot be resumed."""
    if channel != "__interrupt__" or not isinstance(value, list):
        return value
    return [Interrupt(**one) if isinstance(one, dict) else one for one in value]


@pytest.mark.parametrize(
    ("version", "kind"), [("0.0.8", "deep"), ("0.5.2", "deep"), ("0.5.2", "shallow")]
)
def test_threads_are_copied_and_verified_and_the_source_is_not_changed(
    version, kind, tmp_path, capsys
):
    told = recording(version, kind)
    expected = Expected(version, kind).checkpoints
    threads = {place.thread_id for place in expected}
    before = json.dumps(told["documents"])
    ours = f"sqlite:///{tmp_path}/ours.db"
    with JsonServer(told["documents"]) as server:
        assert move_in(server.url, ours) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        assert f"{len(threads)} threads: {len(expected)} checkpoints" in out
        assert move_in(server.url, ours) == 0
        assert f"{len(threads)} threads: 0 checkpoints" in capsys.readouterr().out
        assert json.dumps(server.documents) == before


def test_writes_are_in_the_order_of_the_paths_of_their_tasks():
    """In it the sends among them become tasks, in the formats before version 4."""
    place = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}
    checkpoint = {"id": "1", "channel_values": {}, "channel_versions": {}}
    documents: dict[str, Any] = {
        "checkpoint:t:__empty__:1": {**place, "checkpoint": checkpoint, "metadata": "{}"}
    }
    for task, path in (("z", "~1"), ("a", "~2"), ("b", None)):
        for idx in range(2):
            write = {"channel": "log", "type": "json", "blob": f'"{task}{idx}"'}
            own = {"task_id": task, "task_path": path, "idx": idx}
            documents[f"checkpoint_write:t:__empty__:1:{task}:{idx}"] = {**place, **own, **write}
    with (
        JsonServer(documents) as server,
        their_redis_threads(server.url, StrictSerializer()) as read,
    ):
        found = read.read(Place("t", "", "1"))
    assert found is not None
    wrote = [value for _, _, value in found.pending_writes or ()]
    assert wrote == ["b0", "b1", "z0", "z1", "a0", "a1"]
