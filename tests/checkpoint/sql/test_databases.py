"""Whole databases: dumped, loaded elsewhere, verified, swept."""

import asyncio
import json
from hashlib import blake2b
from typing import Any

import pytest

from graphs import Log, line, thread
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import CheckpointError, MilepostError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt


def asking(saver: Any) -> Any:
    def node(state: Log) -> Any:
        return {"log": [interrupt("?")]}

    builder = StateGraph(Log).add_node("a", lambda s: {"log": ["a" * 300]}).add_node("node", node)
    return builder.add_edge(START, "a").add_edge("a", "node").compile(checkpointer=saver)


def fill(saver: Any) -> None:
    graph = line("a", "b").compile(checkpointer=saver)
    for n in range(40):
        graph.invoke({"log": ["x" * 200]}, thread(f"t{n % 3}"))
    asking(saver).invoke({"log": ["in"]}, thread("asking"))
    saver.set_thread_metadata("t0", {"owner": "ann", "tags": ["x"]})


def content(saver: Any) -> list[Any]:
    return [(f.config, f.checkpoint, f.metadata, f.pending_writes) for f in saver.list(None)]


def test_threads_move_from_sqlite_to_postgres_and_back(sqlite, postgres, tmp_path):
    fill(sqlite)
    lines = list(sqlite.dump())
    assert sorted(postgres.load(lines)) == ["asking", "t0", "t1", "t2"]
    assert content(postgres) == content(sqlite)
    assert postgres.get_thread("t0").metadata == {"owner": "ann", "tags": ["x"]}
    assert postgres.verify() == []
    assert asking(postgres).invoke(Command(resume="!"), thread("asking"))["log"][-1] == "!"
    with SqliteSaver.from_conn_string(str(tmp_path / "back.db")) as back:
        back.load(postgres.dump(["t0"]))
        assert back.get_tuple(thread("t0")) == sqlite.get_tuple(thread("t0"))


def test_threads_move_from_sqlite_to_postgres_on_an_event_loop(sqlite, postgres, tmp_path):
    fill(sqlite)

    async def move() -> None:
        assert sorted(await postgres.aload(sqlite.adump())) == ["asking", "t0", "t1", "t2"]
        assert [line async for line in sqlite.adump(["t0"])] == list(sqlite.dump(["t0"]))
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "back.db")) as back:
            await back.aload(sqlite.dump(["t0"]))
            assert await back.aget_tuple(thread("t0")) == sqlite.get_tuple(thread("t0"))

    asyncio.run(move())
    assert content(postgres) == content(sqlite)


def test_a_dump_reads_one_thread_at_a_time_and_a_load_stores_it_before_it_reads_on(
    sqlite, tmp_path
):
    fill(sqlite)
    taken: list[str] = []
    reading: list[int] = []
    run = sqlite.engine.run

    def counted(work: Any, *, write: bool) -> Any:
        reading.append(len(taken))
        return run(work, write=write)

    with SqliteSaver.from_conn_string(str(tmp_path / "target.db")) as target:

        def lines() -> Any:
            for line in sqlite.dump():
                ended = '"thread"' in line[:10]
                yield line
                if ended:
                    # The line after a thread's last one is asked for when the thread is stored.
                    taken.append(json.loads(line)["thread"])
                    assert target.get_tuple(thread(taken[-1])) is not None

        sqlite.engine.run = counted  # type: ignore[method-assign]
        target.load(lines())
    assert reading[-4:] == [0, 1, 2, 3]


def test_a_thread_that_is_deleted_during_a_dump_is_left_out(sqlite, tmp_path):
    fill(sqlite)
    lines = sqlite.dump()
    begun = [next(lines), next(lines)]
    sqlite.delete_thread("t2")
    with SqliteSaver.from_conn_string(str(tmp_path / "target.db")) as target:
        assert target.load([*begun, *lines]) == ["asking", "t0", "t1"]


def test_what_is_sealed_stays_sealed_in_a_dump(path, tmp_path):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32)
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        line("a").compile(checkpointer=saver).invoke({"log": ["a secret"]}, thread("t"))
        lines = list(saver.dump())
    assert "secret" not in "".join(lines)
    with SqliteSaver.from_conn_string(str(tmp_path / "other.db"), serde=serde) as other:
        other.load(lines)
        assert other.get_tuple(thread("t")).checkpoint["channel_values"]["log"] == ["a secret", "a"]


class OnlyTwoMethods:
    """A serializer of the user's own, which binds nothing to a place."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return "json", json.dumps(value).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return json.loads(data[1])


@pytest.mark.parametrize(
    "serde",
    [
        None,
        EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16),
        EncryptedSerializer.from_pycryptodome_aes(OnlyTwoMethods(), key=b"0" * 16),
    ],
    ids=["plain", "sealed", "sealed foreign"],
)
def test_a_thread_is_loaded_under_another_id(path, tmp_path, serde):
    with (
        SqliteSaver.from_conn_string(path, serde=serde) as source,
        SqliteSaver.from_conn_string(str(tmp_path / "other.db"), serde=serde) as target,
    ):
        graph = line("a", "b").compile(checkpointer=source)
        for _ in range(3):
            graph.invoke({"log": ["x" * 200]}, thread("old"))
        assert target.load(source.dump(), rename={"old": "new", "other": "unused"}) == ["new"]
        assert target.get_tuple(thread("old")) is None
        assert [(f.checkpoint, f.metadata, f.pending_writes) for f in target.list(None)] == [
            (f.checkpoint, f.metadata, f.pending_writes) for f in source.list(None)
        ]
        assert asyncio.run(source.aload(source.dump(), rename={"old": "beside"})) == ["beside"]
        assert source.verify() == target.verify() == []


def test_a_thread_is_loaded_as_a_whole_or_not_at_all(sqlite, tmp_path):
    fill(sqlite)
    lines = list(sqlite.dump(["t0", "t1"]))
    with SqliteSaver.from_conn_string(str(tmp_path / "target.db")) as target:
        with pytest.raises(CheckpointError, match="breaks off after 1"):
            target.load(lines[: len(lines) - 5])
        assert [info.thread_id for info in target.list_threads()] == ["t0"]
        with pytest.raises(CheckpointError, match="exists already"):
            target.load(lines)
        altered = [
            lines[0],
            lines[1],
            lines[2].replace('"checkpoints"', '"checkpoints "'),
            *lines[3:],
        ]
        with pytest.raises(CheckpointError, match=r"Line 3 .* checksum"):
            target.load(altered)
        with pytest.raises(CheckpointError, match="rows are missing"):
            target.load([*lines[:2], *lines[3:]])
        with pytest.raises(CheckpointError, match="beginning"):
            target.load(lines[1:])
        assert json.loads(lines[-1]) == {"end": 2}


def stream(*rows: Any, thread_id: Any = "new") -> list[str]:
    """A stream with the right checksums, written by hand."""
    lines, total = [], blake2b(digest_size=16)
    for row in rows:
        body = json.dumps(row)
        checksum = blake2b(body.encode(), digest_size=8).hexdigest()
        total.update(checksum.encode())
        lines.append(f'{{"row": {body}, "sum": "{checksum}"}}')
    end = {"thread": thread_id, "rows": len(rows), "sum": total.hexdigest()}
    header = json.dumps({"milepost": "threads", "version": 1})
    return [header, *lines, json.dumps(end), json.dumps({"end": 1})]


def test_a_stream_made_by_hand_cannot_touch_other_threads(saver):
    fill(saver)
    before = content(saver)
    [head] = [info.head for info in saver.list_threads(prefix="t0")]
    data = {"b": "AAAA"}
    of_another = ["checkpoints", "t0", "", head, None, 1, None, data, None, data, data]
    for rows, reason in (
        ([of_another], "rows of another one"),
        ([of_another[:-1]], "not a row of a thread"),
        ([["threads; DROP TABLE threads", *of_another[1:]]], "not a row of a thread"),
        ([[["threads"], 1]], "not a row of a thread"),
        ([["checkpoints", "new", *of_another[2:-1], {"b": "!"}]], "not a row of a thread"),
        ([7], "not a row of a thread"),
    ):
        with pytest.raises(CheckpointError, match=reason):
            saver.load(stream(*rows))
    for lines in (["[]"], stream(thread_id={"not": "text"}), stream(thread_id=None)):
        with pytest.raises(CheckpointError, match="expected"):
            saver.load(lines)
    with pytest.raises(CheckpointError, match="NUL"):
        saver.load(stream(thread_id="\0"))
    assert content(saver) == before
    assert saver.verify() == []


def test_a_sound_database_has_no_problems(saver):
    fill(saver)
    saver.prune(["t0"])
    saver.delete_thread("t1")
    saver.copy_thread("t2", "t3")
    assert saver.verify() == []


def test_writes_that_a_foreign_runtime_puts_before_their_checkpoint_are_no_damage(saver):
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    early = {"configurable": {**config["configurable"], "checkpoint_id": empty_checkpoint()["id"]}}
    saver.put_writes(early, [("text", "early")], "task")
    assert saver.verify() == []
    saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    assert [problem.reason for problem in saver.verify()] == ["its checkpoint is gone"]


DAMAGE = {
    "a checkpoint is gone": (
        "DELETE FROM checkpoints WHERE checkpoint_id = (SELECT MIN(checkpoint_id) FROM checkpoints"
        " WHERE thread_id = 't0')",
        "checkpoints",
    ),
    "a frame is altered": (
        "UPDATE checkpoints SET frame = x'c1' WHERE thread_id = 't0' AND complete = 1",
        "checkpoints",
    ),
    "metadata is altered": (
        "UPDATE checkpoints SET metadata = x'c1' WHERE thread_id = 't0' AND complete = 1",
        "checkpoints",
    ),
    "a value is gone": (
        "DELETE FROM checkpoint_blobs WHERE thread_id = 't0' AND base IS NULL",
        "checkpoint_blobs",
    ),
    "a value is cut short": (
        "UPDATE checkpoint_blobs SET blob = substr(blob, 1, 9) WHERE thread_id = 't0' AND base IS NULL",
        "checkpoint_blobs",
    ),
    "a write is altered": (
        "UPDATE checkpoint_writes SET blob = x'c1', type = NULL, base = NULL WHERE thread_id = 't0'",
        "checkpoint_writes",
    ),
    "the head is gone": ("UPDATE threads SET head = 'x' WHERE thread_id = 't0'", "threads"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_and_never_read_back_silently(sqlite, path, name):
    fill(sqlite)
    sound = content(sqlite)
    statement, table = DAMAGE[name]
    sqlite.conn.execute(statement)
    with SqliteSaver.from_conn_string(path) as saver:
        problems = saver.verify()
        assert table in {problem.table for problem in problems}
        assert {problem.thread_id for problem in problems} == {"t0"}
        named = " ".join(problem.key for problem in problems)
        for place, checkpoint, metadata, writes in sound:
            try:
                found = saver.get_tuple(place)
            except MilepostError:
                assert place["configurable"]["thread_id"] == "t0"
                continue
            if found is None:
                assert name == "a checkpoint is gone"
                continue
            assert (found.checkpoint, found.metadata, found.pending_writes) == (
                checkpoint,
                metadata,
                writes,
            ), named


def test_a_sweep_removes_threads_that_were_not_used_for_long(saver):
    fill(saver)
    assert saver.sweep(ttl=3600).threads == []
    assert sorted(saver.sweep(ttl=-10, dry_run=True).threads) == ["asking", "t0", "t1", "t2"]
    assert len(saver.list_threads()) == 4
    assert sorted(saver.sweep(ttl=-10).threads) == ["asking", "t0", "t1", "t2"]
    assert list(saver.list(None)) == []
