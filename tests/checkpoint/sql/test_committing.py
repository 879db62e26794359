"""What a step costs a database: few statements, few rows, and still nothing mixed up."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from graphs import counter, thread
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import ThreadConflict


def statements(saver: SqliteSaver) -> list[str]:
    """What the connection is asked to do from now on: the first word, and the table."""
    seen: list[str] = []

    def see(statement: str) -> None:
        words = statement.split()
        table = [word for word in words if word.startswith(("checkpoint", "threads"))]
        seen.append(" ".join([words[0], *table[:1]]))

    saver.conn.set_trace_callback(see)
    return seen


def test_a_step_of_a_run_that_has_its_thread_is_one_statement(sqlite):
    seen: list[str] = []
    steps: list[list[str]] = []

    def next_step(n: int) -> None:
        steps.append(seen.copy())
        seen.clear()

    graph = counter(sqlite, 4, next_step)
    seen = statements(sqlite)
    graph.invoke({"n": 0}, thread("t"), durability="sync")
    assert steps[1:] == [["INSERT checkpoints"]] * 3


def test_a_run_takes_its_thread_without_looking_it_up(sqlite):
    graph = counter(sqlite, 1)
    graph.invoke({"n": 0}, thread("t"), durability="exit")
    seen = statements(sqlite)
    graph.invoke({"n": 0}, thread("t"), durability="exit")
    graph.invoke({"n": 0}, thread("new"), durability="exit")
    registry = [statement for statement in seen if statement.endswith("threads")]
    assert registry == ["UPDATE threads", "INSERT threads"]


def test_the_writes_of_a_task_share_a_row_and_come_back_one_by_one(saver, config, reopen):
    counter(saver, 2).invoke({"n": 0}, config, durability="sync")
    with reopen() as other:
        written = [w for found in other.list(config) for w in found.pending_writes]
    assert [(channel, value) for _, channel, value in written if channel == "n"] == [
        ("n", 2),
        ("n", 1),
        ("n", 0),
    ]
    assert saver.get_thread(config["configurable"]["thread_id"]).writes == 3


def test_writes_that_are_put_again_are_the_first_ones(saver, config):
    counter(saver, 3).invoke({"n": 0}, config, durability="sync")
    several = [found for found in saver.list(config) if len(found.pending_writes) > 1]
    assert several
    for found in several:
        task = found.pending_writes[0][0]
        saver.put_writes(found.config, [("n", 99), ("other", 99), ("more", 99)], task)
        assert saver.get_tuple(found.config).pending_writes == found.pending_writes


def test_what_is_special_may_be_put_beside_them(saver, config):
    counter(saver, 2).invoke({"n": 0}, config, durability="sync")
    found = next(f for f in saver.list(config) if f.pending_writes)
    task = found.pending_writes[0][0]
    saver.put_writes(found.config, [("__error__", "late")], task)
    written = saver.get_tuple(found.config).pending_writes
    assert (task, "__error__", "late") in written
    assert all(write in written for write in found.pending_writes)


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "encrypted"])
def test_a_copy_has_the_writes_too(path, config, sealed):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16) if sealed else None
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        counter(saver, 2).invoke({"n": 0}, config, durability="sync")
        saver.copy_thread("t", "copy")
        assert [f.pending_writes for f in saver.list(thread("copy"))] == [
            f.pending_writes for f in saver.list(config)
        ]
        assert list(saver.verify()) == []


def test_a_thread_that_is_pruned_in_mid_run_stays_whole(saver, config, reopen):
    """The run builds on rows that are gone: it finds out, and stores what it needs again."""

    def prune(n: int) -> None:
        if n in (5, 40):
            with reopen() as other:
                assert other.prune(["t"], strategy="keep_latest").checkpoints > 0

    graph = counter(saver, 60, prune)
    config = {**config, "recursion_limit": 100}
    graph.invoke({"n": 0}, config, durability="sync")
    with reopen() as other:
        assert list(other.verify()) == []
        assert [s.values["n"] for s in counter(other, 60).get_state_history(config)] == [
            *range(60, 39, -1)
        ]


def test_a_thread_that_is_pruned_before_a_run_takes_it_stays_whole(saver, config, reopen):
    """The head is as the run has found it, but what that is a difference from is gone."""

    def prune(n: int) -> None:
        if n == 12:
            with reopen() as other:
                assert other.prune(["t"], strategy="keep_latest").checkpoints > 0

    counter(saver, 9).invoke({"n": 0}, config, durability="sync")
    graph = counter(saver, 13, prune)
    assert graph.invoke({"n": 12}, config, durability="exit") == {"n": 13}
    with reopen() as other:
        assert list(other.verify()) == []
        assert [s.values["n"] for s in counter(other, 13).get_state_history(config)] == [13, 9]


def test_a_thread_that_is_deleted_in_mid_run_is_a_conflict(saver, config, reopen):
    def delete(n: int) -> None:
        if n == 3:
            with reopen() as other:
                other.delete_thread("t")

    with pytest.raises(ThreadConflict, match="was deleted"):
        counter(saver, 6, delete).invoke({"n": 0}, config, durability="sync")
    assert saver.get_tuple(config) is None


OPEN = """
import os, sys
from milepost.checkpoint.sqlite import SqliteSaver

waiting, beginning = os.pipe()
ready, started = os.pipe()
children = []
for _ in range(8):
    if (child := os.fork()) == 0:
        os.close(beginning)
        os.write(started, b".")
        os.read(waiting, 1)  # until the parent closes its end
        with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
            saver.setup()
        sys.exit()
    children.append(child)
for _ in children:
    os.read(ready, 1)
os.close(beginning)
print([os.waitpid(child, 0)[1] for child in children])
"""


def test_eight_processes_may_open_a_new_file_at_once(path):
    done = subprocess.run(
        [sys.executable, "-c", OPEN, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == (f"{[0] * 8}\n", "")
    with SqliteSaver.from_conn_string(path) as saver:
        counter(saver, 2).invoke({"n": 0}, thread("t"))


class Contended(sqlite3.Connection):
    """Says that the file is locked when the log is switched on, as if others were about to."""

    refusals = 2

    def cursor(self) -> Any:  # type: ignore[override]
        owner = self

        class Cursor(sqlite3.Cursor):
            def execute(self, sql: str, *rest: Any) -> Any:
                if "journal_mode" in sql and owner.refusals:
                    owner.refusals -= 1
                    raise sqlite3.OperationalError("database is locked")
                return super().execute(sql, *rest)

        return Cursor(self)


def test_a_switch_of_the_log_that_is_refused_is_tried_again(path):
    with closing(sqlite3.connect(path, factory=Contended)) as connection:
        SqliteSaver(connection).setup()
        assert connection.refusals == 0
