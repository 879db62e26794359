"""On a terminal: colours, a question before something is removed, bars while it lasts."""

import os
import select
import signal
import sys
import time

import pytest

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli.lines import Text, table

pty = pytest.importorskip("pty")

PATIENCE = 120


def on_a_terminal(arguments: list[str], typed: str = "", **env: str) -> tuple[int, str]:
    """Runs a command on a pseudo-terminal; its status and what the terminal was sent."""
    child, terminal = pty.fork()
    if child == 0:
        names = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "PAGER": "cat", **env}
        if "NO_COLOR" not in env:
            names.pop("NO_COLOR", None)
        os.execve(sys.executable, [sys.executable, "-m", "milepost.cli", *arguments], names)
    shown, asked = b"", False
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if select.select([terminal], [], [], 1)[0]:
            try:
                some = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not some:
                break
            shown += some
            if asked or not typed or b"[y/N]" not in shown:
                continue
            asked = True
        elif not asked:
            continue
        # Typed again if nothing follows: a Ctrl-C just before Python waits for a key is noticed
        # with the next key.
        os.write(terminal, typed.encode())
    else:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    return status, shown.decode()


def test_a_terminal_gets_colours_unless_it_wants_none(file):
    status, shown = on_a_terminal(["log", "done", "--no-pager"], MILEPOST_DB=str(file))
    assert status == 0
    assert "\x1b[33m" in shown
    status, shown = on_a_terminal(["log", "done"], MILEPOST_DB=str(file), NO_COLOR="1")
    assert (status, "\x1b[33m" in shown) == (0, False)


@pytest.mark.parametrize(
    ("typed", "left", "status"), [("n\n", 5, 1), ("\x03", 5, 130), ("y\n", 1, 0)]
)
def test_prune_asks_before_it_removes(file, typed, left, status):
    done, shown = on_a_terminal(["prune", "done"], typed, MILEPOST_DB=str(file))
    assert (done, "Remove 4 checkpoints" in shown) == (status, True)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        assert len(list(saver.list({"configurable": {"thread_id": "done"}}))) == left


def test_ctrl_c_ends_a_tail_that_follows(file):
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-m", "milepost.cli", "tail", "-f", "done", "--db", str(file)]
        os.execv(sys.executable, command)
    shown = b""
    until = time.monotonic() + PATIENCE
    while shown.count(b"\n") < 5 and time.monotonic() < until:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536)
    os.write(terminal, b"\x03")
    while select.select([terminal], [], [], 0.1)[0]:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:
            break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert status == 130
    assert shown.count(b"\n") == 5


def test_a_table_is_aligned_by_what_a_terminal_shows():
    header, numbers = ("thread", "bytes", "what is said"), (False, True, False)
    rows = [
        [Text("a"), Text("12 kB"), Text("one", style="red") + Text(" two")],
        [Text("a longer name"), Text("9 B"), Text("")],
        [Text("日本語 e\u0301"), Text("100.5 MB"), Text("[bold]x[/bold]")],
    ]
    assert [line.plain for line in table(header, rows, numbers)] == [
        "thread            bytes  what is said",
        "a                 12 kB  one two",
        "a longer name       9 B",
        "日本語 e\u0301       100.5 MB  [bold]x[/bold]",
    ]


def test_a_line_has_the_codes_of_its_styles():
    line = Text("a tab\tand [b] spaces   ", style="bold green") + Text("\nmore ")
    assert line.styled == "\x1b[1;32ma tab\tand [b] spaces   \x1b[0m\nmore "


def test_a_narrow_terminal_cuts_the_last_column_off_first(file):
    status, shown = on_a_terminal(
        ["blame", "done", "messages", "--no-pager"],
        MILEPOST_DB=str(file),
        NO_COLOR="1",
        COLUMNS="72",
    )
    lines = shown.splitlines()
    assert (status, max(map(len, lines))) == (0, 72)
    assert lines[1].startswith("messages.0  ")
    assert [line.split()[3] for line in lines[1:]] == ["input", "plan"]
    assert all(line.endswith("…") for line in lines[2:])


def test_one_long_name_leaves_room_for_the_columns_behind_it():
    row = [Text("漢字" * 50), Text("interrupted"), Text("2026-11-18")]
    _, line = table(("thread", "status", "used"), [row], [False] * 3, 40)
    name, *rest = line.plain.split()
    assert (name[:4], rest) == ("漢字漢字", ["interrupted", "2026-11…"])


def test_no_line_of_a_table_is_wider_than_the_terminal():
    row = [Text("a-long-name"), Text("interrupted"), Text("2026-11-18")]
    for line in table(("thread", "status", "used"), [row], [False] * 3, 20):
        assert len(line.plain) <= 20
