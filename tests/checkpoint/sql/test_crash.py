"""Processes that are killed: nothing acknowledged is lost, nothing runs twice."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from crash_child import CONFIG, INPUT, graph_of, opened

from milepost.checkpoint.memory import InMemorySaver

LONG = bool(os.environ.get("MILEPOST_LONG"))
CHILD = str(Path(__file__).with_name("crash_child.py"))


def child(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, CHILD, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def undisturbed() -> Any:
    graph = graph_of(InMemorySaver(), lambda name: None)
    graph.invoke(INPUT, CONFIG)
    return [s.values for s in graph.get_state_history(CONFIG)]


def killed_and_resumed(backend: str, where: str, durability: str, log: str, at: int) -> None:
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
def test_killed_at_every_storage_call_a_run_on_sqlite_resumes(tmp_path, durability):
    ended = child("sqlite", tmp_path / "count.db", durability, tmp_path / "count.log", 0)
    assert ended.returncode == 0, ended.stderr
    calls = int(ended.stdout)
    assert calls >= 8

    def attempt(at: int) -> None:
        killed_and_resumed(
            "sqlite", str(tmp_path / f"{at}.db"), durability, str(tmp_path / f"{at}.log"), at
        )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(attempt, range(1, calls + 1)))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_every_storage_call_a_run_on_postgres_resumes(tmp_path, server, durability):
    import psycopg

    @contextmanager
    def database(at: int) -> Iterator[str]:
        name = f"crash_{durability}_{at}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
            yield str(server.get_uri(name))
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    with database(0) as where:
        ended = child("postgres", where, durability, tmp_path / "count.log", 0)
    assert ended.returncode == 0, ended.stderr

    def attempt(at: int) -> None:
        with database(at) as where:
            killed_and_resumed("postgres", where, durability, str(tmp_path / f"{at}.log"), at)

    # In short, every third call of those that promise less.
    calls = range(1, int(ended.stdout) + 1, 1 if LONG or durability == "sync" else 3)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt, calls))
