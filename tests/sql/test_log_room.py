"""A commit that finds room in SQLite's log need not make the file longer."""

import os
import shutil
import sqlite3
from contextlib import ExitStack
from pathlib import Path

import pytest

from graphs import counter, thread
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.sql import lite_log


def log_size(path: str) -> int:
    return os.path.getsize(f"{path}-wal")


def test_the_log_is_made_longer_only_a_few_times(path):
    sizes: list[int] = []
    with SqliteSaver.from_conn_string(path) as saver:
        graph = counter(saver, 200, lambda _: sizes.append(log_size(path)))
        graph.invoke({"n": 0}, {**thread("t"), "recursion_limit": 300}, durability="sync")
    assert len(sizes) == 200
    # Twice for each time that room is made: by the commit that had none, and by the room.
    assert len(set(sizes)) <= 12


def test_a_single_commit_makes_no_room(path):
    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
    with SqliteSaver.from_conn_string(path) as saver:
        counter(saver, 1).invoke({"n": 0}, thread("t"), durability="exit")
        assert Path(f"{path}-wal").read_bytes()[-64:].strip(b"\0")


def test_what_was_acknowledged_is_in_the_files_at_any_moment(path, tmp_path):
    found: list[tuple[int, int]] = []

    def copied(n: int) -> None:
        """The files as they are when the power fails: the shared memory is gone."""
        copy = str(tmp_path / "copy.db")
        for end in ("", "-wal"):
            shutil.copyfile(path + end, copy + end)
        with SqliteSaver.from_conn_string(copy) as other:
            found.append((n, len(list(other.list(thread("t"))))))

    with SqliteSaver.from_conn_string(path) as saver:
        counter(saver, 60, copied).invoke(
            {"n": 0}, {**thread("t"), "recursion_limit": 99}, durability="sync"
        )
        assert not Path(f"{path}-wal").read_bytes()[-4096:].strip(b"\0"), "no room was made"
    # The input, its step, and a checkpoint for each node before this one.
    assert found == [(n, n + 2) for n in range(len(found))]


def test_several_who_write_to_one_file_do_not_make_room_in_turns(path):
    with ExitStack() as stack:
        graphs = [
            counter(stack.enter_context(SqliteSaver.from_conn_string(path)), 1) for _ in range(3)
        ]
        for turn in range(60):
            for name, graph in enumerate(graphs):
                graph.invoke({"n": 0}, thread(f"{name}-{turn}"), durability="sync")
        assert log_size(path) < 8 * 1024 * 1024


def test_room_is_made_while_nobody_else_can_write(path, monkeypatch):
    refused: list[str] = []
    write = os.write

    def seen(file: int, data: bytes) -> int:
        other = sqlite3.connect(path, timeout=0)
        with pytest.raises(sqlite3.OperationalError) as error:
            other.execute("BEGIN IMMEDIATE")
        refused.append(str(error.value))
        other.close()
        return write(file, data)

    with SqliteSaver.from_conn_string(path) as saver:
        counter(saver, 1).invoke({"n": 0}, thread("t"), durability="sync")
        monkeypatch.setattr(lite_log.os, "write", seen)
        counter(saver, 40).invoke({"n": 0}, thread("u"), durability="sync")
    assert refused
    assert set(refused) == {"database is locked"}


def test_where_room_cannot_be_made_commits_go_on(path, monkeypatch):
    asked: list[str] = []
    usual = os.open

    def refuse(name: str, flags: int) -> int:
        if not flags & os.O_RDWR:
            return usual(name, flags)
        asked.append(name)
        raise PermissionError(name)

    with SqliteSaver.from_conn_string(path) as saver:
        monkeypatch.setattr(lite_log.os, "open", refuse)
        graph = counter(saver, 20)
        graph.invoke({"n": 0}, thread("t"), durability="sync")
        assert graph.get_state(thread("t")).values == {"n": 20}
    assert len(asked) == 1


def test_nobody_asks_for_the_times_of_the_log(path, monkeypatch):
    """On Linux the next write would have to set them exactly, and its fsync would wait for that."""
    asked: list[object] = []
    looks = {name: getattr(os, name) for name in ("stat", "fstat", "lstat")}

    def noting(name):
        def look(file, *args, **kwargs):
            asked.append(file)
            return looks[name](file, *args, **kwargs)

        return look

    with SqliteSaver.from_conn_string(path) as saver:
        graph = counter(saver, 40)
        graph.invoke({"n": 0}, thread("t"), durability="sync")
        for name in looks:
            monkeypatch.setattr(os, name, noting(name))
        graph.invoke({"n": 0}, thread("u"), durability="sync")
        monkeypatch.undo()
    assert not asked
