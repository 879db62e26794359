"""The files of a database are SQLite's alone: nothing else opens its log, and what it has
acknowledged is in them."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from graphs import counter, thread
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import ConnectionUnusableError
from milepost.store.sqlite import SqliteStore

_opened: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


@pytest.fixture
def opened():
    """The names of the files that Python code opens, by whatever function. SQLite does not open
    its own through Python."""
    global _opened
    if _note not in _hooks:  # an audit hook cannot be taken away
        sys.addaudithook(_note)
        _hooks.append(_note)
    _opened = []
    yield _opened
    _opened = None


_hooks: list[object] = []

FEW = {**thread("t"), "recursion_limit": 99}


def files_of(path: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.basename(path) in name]


def descriptors(path: str) -> int:
    """How many of this process are of the log."""
    links = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(one))
        except FileNotFoundError:  # that of the directory itself
            continue
    return links.count(f"{path}-wal")


def test_what_is_opened_by_python_is_noted(path, opened):
    Path(f"{path}-wal").write_bytes(b"")
    os.close(os.open(f"{path}-wal", os.O_RDONLY))
    assert files_of(path, opened) == [f"{path}-wal"] * 2


def test_nothing_is_stored_in_a_file_that_was_removed_or_replaced(path, tmp_path):
    with SqliteSaver.from_conn_string(path) as saver, SqliteStore.from_conn_string(path) as store:
        store.put(("a",), "k", {"n": 1})
        graph = counter(saver, 3)
        graph.invoke({"n": 0}, thread("t"))
        os.rename(path, tmp_path / "aside")
        for replaced in (False, True):
            if replaced:
                shutil.copy(tmp_path / "aside", path)
            with pytest.raises(ConnectionUnusableError, match="removed, replaced or renamed"):
                graph.invoke({"n": 0}, thread("u"), durability="sync")
            with pytest.raises(ConnectionUnusableError, match="removed, replaced or renamed"):
                store.put(("a",), "k", {"n": 2})
            assert graph.get_state(thread("t")).values == {"n": 3}
        os.replace(tmp_path / "aside", path)
        graph.invoke({"n": 0}, thread("u"))
    with SqliteSaver.from_conn_string(path) as saver:
        assert counter(saver, 3).get_state(thread("u")).values == {"n": 3}


@pytest.mark.parametrize("given", ["{}", "file:{}?mode=rwc"])
def test_a_file_that_is_replaced_before_its_first_use_is_noticed(path, tmp_path, given):
    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
    with SqliteSaver.from_conn_string(given.format(path)) as saver:
        shutil.copy(path, tmp_path / "restored")
        os.replace(tmp_path / "restored", path)
        with pytest.raises(ConnectionUnusableError, match="removed, replaced or renamed"):
            counter(saver, 3).invoke({"n": 0}, thread("t"), durability="sync")


def test_a_process_that_has_dropped_its_privileges_goes_on(path, monkeypatch):
    def denied(path: str) -> None:
        raise PermissionError

    with SqliteSaver.from_conn_string(path) as saver:
        graph = counter(saver, 3)
        graph.invoke({"n": 0}, thread("t"))
        with monkeypatch.context() as patched:
            patched.setattr("os.stat", denied)
            assert graph.invoke({"n": 0}, thread("u"), durability="sync") == {"n": 3}


def test_nothing_but_sqlite_opens_the_files_of_a_database(path, opened):
    with SqliteSaver.from_conn_string(path) as saver, SqliteStore.from_conn_string(path) as store:
        store.setup()
        graph = counter(saver, 60, lambda n: store.put(("seen",), str(n), {"n": n}))
        for durability in ("sync", "async", "exit"):
            graph.invoke({"n": 0}, {**FEW, **thread(durability)}, durability=durability)
            assert graph.get_state(thread(durability)).values == {"n": 60}
        saver.delete_thread("async")
        saver.vacuum()
    assert files_of(path, opened) == []


def test_nothing_but_sqlite_opens_the_files_of_a_database_on_an_event_loop(path, opened):
    async def run() -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            await counter(saver, 60).ainvoke({"n": 0}, FEW, durability="sync")

    asyncio.run(run())
    assert files_of(path, opened) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="descriptors are listed on Linux")
def test_the_log_has_one_descriptor_for_each_connection_and_that_is_sqlites(path):
    found: list[int] = []
    with SqliteSaver.from_conn_string(path) as saver:
        counter(saver, 60, lambda _: found.append(descriptors(path))).invoke(
            {"n": 0}, FEW, durability="sync"
        )
    assert found == [1] * 60
    assert descriptors(path) == 0


def test_the_log_is_as_long_as_what_sqlite_has_written(path):
    """Each page in it has a header that repeats the salts of the log: there is nothing else."""
    with SqliteSaver.from_conn_string(path) as saver:
        counter(saver, 60).invoke({"n": 0}, FEW, durability="sync")
        log = Path(f"{path}-wal").read_bytes()
    size, salts = int.from_bytes(log[8:12], "big"), log[16:24]
    frames = range(32, len(log), 24 + size)
    assert (len(log) - 32) % (24 + size) == 0
    assert {log[at + 8 : at + 16] for at in frames} == {salts}


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
        counter(saver, 60, copied).invoke({"n": 0}, FEW, durability="sync")
    # The input, its step, and a checkpoint for each node before this one.
    assert found == [(n, n + 2) for n in range(len(found))]
    assert found
