"""Processes that are killed: nothing acknowledged is lost, nothing runs twice."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crash_child import CONFIG, INPUT, graph_of, opened

from milepost.checkpoint.memory import InMemorySaver
from warm import ENGINE, warm

LONG = bool(os.environ.get("MILEPOST_LONG"))
CHILD = str(Path(__file__).with_name("crash_child.py"))


Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def child() -> Iterator[Start]:
    with warm(*ENGINE) as programs:
        yield partial(programs.run, CHILD)


@pytest.fixture(scope="module")
def child_on_postgres() -> Iterator[Start]:
    with warm(*ENGINE, "milepost.checkpoint.postgres") as programs:
        yield partial(programs.run, CHILD)


def undisturbed() -> Any:
    graph = graph_of(InMemorySaver(), lambda name: None)
    graph.invoke(INPUT, CONFIG)
    return [s.values for s in graph.get_state_history(CONFIG)]


def killed_and_resumed(
    child: Start, backend: str, where: str, durability: str, log: str, at: int
) -> None:
    ended = child(backend, where, durability, log, at)
    if ended.returncode == 0:
        # Two tasks side by side may share a transaction: then there are fewer calls than counted.
        assert int(ended.stdout) < at
        return
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    lines = Path(log).read_text().splitlines() if Path(log).exists() else []
    stored = {entry.split()[1] for entry in lines if entry.startswith("stored")} & set("abcd")
    expected = undisturbed()
    again: list[str] = []
    with opened(backend, where) as saver:
        graph = graph_of(saver, again.append)
        found = [s.values for s in graph.get_state_history(CONFIG)]
        if durability == "exit":
            assert found in ([], expected[:1])
        else:
            assert found == expected[len(expected) - len(found) :], "not a committed prefix"
        result = graph.invoke(None if found else INPUT, CONFIG, durability="sync")
        assert result == expected[0]
        if durability == "sync":
            assert not stored & set(again), f"{stored} were acknowledged, but {again} ran again"
        if durability != "exit":
            assert [s.values for s in graph.get_state_history(CONFIG)] == expected
        if backend == "sqlite":
            assert saver.conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_every_storage_call_a_run_on_sqlite_resumes(tmp_path, durability, child):
    ended = child("sqlite", tmp_path / "count.db", durability, tmp_path / "count.log", 0)
    assert ended.returncode == 0, ended.stderr
    calls = int(ended.stdout)
    assert calls >= 8

    for at in range(1, calls + 1):
        log = str(tmp_path / f"{at}.log")
        killed_and_resumed(child, "sqlite", str(tmp_path / f"{at}.db"), durability, log, at)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_every_storage_call_a_run_on_postgres_resumes(
    tmp_path, databases, server, durability, child_on_postgres
):
    child = child_on_postgres

    @contextmanager
    def database() -> Iterator[str]:
        name = databases.take()
        yield str(server.get_uri(name))
        databases.give_back(name)

    with database() as where:
        ended = child("postgres", where, durability, tmp_path / "count.log", 0)
    assert ended.returncode == 0, ended.stderr
    # In short, every third call of those that promise less.
    for at in range(1, int(ended.stdout) + 1, 1 if LONG or durability == "sync" else 3):
        log = str(tmp_path / f"{at}.log")
        with database() as where:
            killed_and_resumed(child, "postgres", where, durability, log, at)
