"""A move that is run again, broken off, or goes wrong; and what it shows."""

import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from libraries import LANGGRAPH, MILEPOST
from moves import move_in, move_out
from stories import line, says, thread

from milepost.integrations.langgraph._moving.addresses import open_theirs, our_saver, their_saver
from milepost.integrations.langgraph._moving.threads import Route, move_threads
from warm import warm

pytest.importorskip("langgraph.checkpoint.sqlite")


def told(address: str, name: str = "t") -> Any:
    """All that a milepost database has of a thread."""
    with our_saver(address) as saver:
        return list(saver.list(thread(name)))


def asking(lib: Any, saver: Any) -> Any:
    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt("one?"), lib.interrupt("two?")]}

    return line(lib, says("a"), ask).compile(checkpointer=saver)


def test_a_move_can_be_run_again_and_takes_what_is_new(files, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a")).compile(checkpointer=saver)
        graph.invoke({"log": []}, thread("one"))
        move_in(theirs, ours)
        capsys.readouterr()
        graph.invoke({"log": []}, thread("one"))
        graph.invoke({"log": []}, thread("two"))
    assert move_in(theirs, ours) == 0
    assert "2 threads: 6 checkpoints" in capsys.readouterr().out
    with our_saver(ours) as saver:
        graph = line(MILEPOST, says("a")).compile(checkpointer=saver)
        assert graph.get_state(thread("one")).values == {"log": ["a", "a"]}


def test_a_thread_that_has_gone_on_here_is_left_alone(files, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        line(LANGGRAPH, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    move_in(theirs, ours)
    with our_saver(ours) as saver:
        line(MILEPOST, says("a")).compile(checkpointer=saver).invoke({"log": ["new"]}, thread())
    assert move_in(theirs, ours) == 0
    assert "left alone: thread 't' has gone on" in capsys.readouterr().out
    with our_saver(ours) as saver:
        values = line(MILEPOST, says("a")).compile(checkpointer=saver).get_state(thread()).values
    assert values == {"log": ["a", "new", "a"]}


def test_only_the_named_threads_are_copied(files):
    theirs, ours = files
    with their_saver(theirs) as saver:
        for name in ("one", "two"):
            line(LANGGRAPH, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread(name))
    move_in(theirs, ours, "--thread", "two")
    with our_saver(ours) as saver:
        assert [info.thread_id for info in saver.list_threads()] == ["two"]


def test_the_source_is_not_changed(files, tmp_path):
    theirs, ours = files
    with their_saver(theirs) as saver:
        line(LANGGRAPH, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    before = tmp_path.joinpath("theirs.db").read_bytes()
    move_in(theirs, ours)
    assert tmp_path.joinpath("theirs.db").read_bytes() == before


def test_an_answer_that_was_given_here_is_not_taken_back(files, capsys):
    """The thread has no new checkpoint, but a write that LangGraph knows nothing of."""
    theirs, ours = files
    with their_saver(theirs) as saver:
        asking(LANGGRAPH, saver).invoke({"log": []}, thread())
    move_in(theirs, ours)
    with our_saver(ours) as saver:
        asking(MILEPOST, saver).invoke(MILEPOST.Command(resume=1), thread())
    assert move_in(theirs, ours) == 0
    assert "left alone: thread 't' has gone on" in capsys.readouterr().out
    with our_saver(ours) as saver:
        graph = asking(MILEPOST, saver)
        assert [question.value for question in graph.get_state(thread()).interrupts] == ["two?"]
        assert graph.invoke(MILEPOST.Command(resume=2), thread()) == {"log": ["a", 1, 2]}


def test_an_answer_that_was_given_there_is_fetched(files):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = asking(LANGGRAPH, saver)
        graph.invoke({"log": []}, thread())
        move_in(theirs, ours)
        graph.invoke(LANGGRAPH.Command(resume=1), thread())
    assert move_in(theirs, ours) == 0
    with our_saver(ours) as saver:
        graph = asking(MILEPOST, saver)
        assert [question.value for question in graph.get_state(thread()).interrupts] == ["two?"]
        assert graph.invoke(MILEPOST.Command(resume=2), thread()) == {"log": ["a", 1, 2]}


def test_an_exported_thread_goes_on_there_run_after_run(addresses):
    theirs, ours = addresses
    with our_saver(ours) as saver:
        graph = line(MILEPOST, says("a"), says("b")).compile(checkpointer=saver)
        for _ in range(2):
            graph.invoke({"log": []}, thread())
    assert move_out(ours, theirs) == 0
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a"), says("b")).compile(checkpointer=saver)
        for _ in range(2):
            result = graph.invoke({"log": []}, thread())
    assert result == {"log": ["a", "b"] * 4}


def test_a_thread_that_the_source_does_not_have_is_named(files, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        line(LANGGRAPH, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert move_in(theirs, ours, "--thread", "none") == 1
    assert "thread 'none': there is no such thread" in capsys.readouterr().err


def test_a_thread_that_was_only_created_is_no_error_of_an_export(addresses, capsys):
    theirs, ours = addresses
    with our_saver(ours) as saver:
        saver.create_thread("empty", {"owner": "ann"})
        line(MILEPOST, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert move_out(ours, theirs) == 0
    assert capsys.readouterr().out.startswith("1 threads: ")


def test_a_file_to_export_from_that_is_not_there_is_not_made(tmp_path, capsys):
    address = f"sqlite:///{tmp_path}/none.db"
    assert move_out(address, f"sqlite:///{tmp_path}/theirs.db") == 4
    assert "There is no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# -- broken off


KILLED = """
import os, tempfile
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli import main

method = {method!r}
whole = getattr(SqliteSaver, method)
calls = []

def dying(self, *arguments):
    calls.append(1)
    if len(calls) == {at}:
        os._exit(9)
    return whole(self, *arguments)

setattr(SqliteSaver, method, dying)
tempfile.tempdir = {place!r}  # nothing removes the copy that it reads from
main(["import", "--from-langgraph", {theirs!r}, "--to", {ours!r}])
"""


@pytest.fixture(scope="module")
def programs():
    with warm("langgraph.checkpoint.sqlite", "milepost.cli") as started:
        yield started


@pytest.mark.parametrize(("method", "at"), [("put", 1), ("put", 5), ("put_writes", 4)])
def test_a_move_that_was_killed_is_run_again_and_is_whole(
    method, at, files, capsys, tmp_path, programs
):
    theirs, ours = files
    with their_saver(theirs) as saver:
        for name in ("one", "two"):
            asking(LANGGRAPH, saver).invoke({"log": []}, thread(name))
    program = tmp_path / "program.py"
    program.write_text(
        KILLED.format(method=method, at=at, theirs=theirs, ours=ours, place=str(tmp_path))
    )
    done = programs.run(program)
    assert done.returncode == 9, done.stderr
    assert move_in(theirs, ours) == 0
    assert "2 threads:" in capsys.readouterr().out
    whole = f"sqlite:///{tmp_path}/whole.db"
    move_in(theirs, whole)
    for name in ("one", "two"):
        assert told(ours, name) == told(whole, name) != []


class Faulty:
    """A saver that stores something else than it was given."""

    def __init__(self, saver: Any, fault: str) -> None:
        self._saver = saver
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        if metadata["step"] == 1:
            if self._fault == "value":
                checkpoint = {**checkpoint, "channel_values": {"log": ["other"]}}
            elif self._fault == "metadata":
                metadata = {**metadata, "extra": 1}
            elif self._fault == "versions seen":
                checkpoint = {**checkpoint, "versions_seen": {}}
            elif self._fault == "parent":
                config = {"configurable": {**config["configurable"], "checkpoint_id": None}}
            elif self._fault == "checkpoint":
                return None
        return self._saver.put(config, checkpoint, metadata, versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, path: str = "") -> None:
        if self._fault == "write":
            writes = [(channel, "other") for channel, _ in writes]
        if self._fault != "no writes":
            self._saver.put_writes(config, writes, task_id, path)
        if self._fault == "more writes":
            self._saver.put_writes(config, writes, "another task", path)


FAULTS = {
    "value": "the value of log",
    "metadata": "its metadata",
    "versions seen": "what its nodes have seen",
    "parent": "its parent",
    "checkpoint": "1 checkpoints are missing",
    "write": "the writes of task",
    "no writes": "the writes of task",
    "more writes": "the writes of task another task to",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_copy_that_differs_is_noticed_and_taken_away(fault, files):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a"), says("b")).compile(checkpointer=saver)
        graph.invoke({"log": []}, thread())
    with open_theirs(theirs) as source, our_saver(ours) as target, our_saver(ours) as reader:
        report = move_threads(Route(source, Faulty(target, fault), reader))
        assert len(report.unreadable) == 1
        assert FAULTS[fault] in report.unreadable[0]
        assert (report.threads, report.checkpoints, report.writes) == (0, 0, 0)
        assert list(reader.list_threads()) == []
        report = move_threads(Route(source, target, reader))
        assert (report.threads, report.unreadable) == (1, [])


def test_a_disk_that_fails_is_said_and_the_next_move_adds_what_is_missing(files):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a"), says("b")).compile(checkpointer=saver)
        graph.invoke({"log": []}, thread())

    class Full(Faulty):
        def put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            if metadata["step"] == 1:
                raise OSError(28, "No space left on device")
            return super().put(config, checkpoint, metadata, versions)

    with open_theirs(theirs) as source, our_saver(ours) as target, our_saver(ours) as reader:
        with pytest.raises(OSError, match="No space left"):
            move_threads(Route(source, Full(target, ""), reader))
        assert len(list(reader.list(thread()))) == 2
        assert move_threads(Route(source, target, reader)).checkpoints == 2
        assert len(list(reader.list(thread()))) == 4


# -- what it shows


def shown(*arguments: str) -> str:
    """What a command writes to a terminal."""
    inside, outside = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "milepost.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=outside,
            check=False,
        )
        assert done.returncode == 0
        os.write(outside, b"\0")  # so that there is something to read
        return os.read(inside, 100_000).decode().removesuffix("\0")
    finally:
        os.close(inside)
        os.close(outside)


def test_progress_is_a_bar_on_a_terminal_and_a_line_elsewhere(files, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a")).compile(checkpointer=saver)
        for _ in range(20):
            graph.invoke({"log": []}, thread("long"))
        graph.invoke({"log": []}, thread("short"))
    drawn = shown("import", "--from-langgraph", theirs, "--to", ours)
    assert "50 of 63 checkpoints" in drawn
    assert "63 of 63 checkpoints" in drawn
    assert shown("import", "--from-langgraph", theirs, "--to", f"{ours}.quiet", "--quiet") == ""
    assert move_in(theirs, f"{ours}.other") == 0
    assert capsys.readouterr().err == "import: 63 of 63 checkpoints\n"
