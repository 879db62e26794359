"""The command line, run as users run it: in a process of its own."""

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

PATIENCE = 120
"""Seconds after which a command counts as hanging. No test passes or fails by less."""


def milepost(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "milepost.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        **options,
    )


def section(output: str, number: int) -> list[str]:
    """The lines of one numbered section of the demo."""
    return re.split(r"^\d\. ", output, flags=re.MULTILINE)[number].split("\n\n")[0].splitlines()


def rows(lines: list[str], header: str) -> list[list[str]]:
    """The cells of the table under this header, as long as it has as many columns."""
    start = next(at for at, line in enumerate(lines) if line.strip().startswith(header))
    columns = len(re.split(r"\s{2,}", lines[start].strip()))
    found = []
    for line in lines[start + 1 :]:
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) < columns:
            break
        found.append(cells)
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> str:
    """What `milepost demo` prints."""
    directory = tmp_path_factory.mktemp("demo")
    done = milepost("demo", env={**os.environ, "TMPDIR": str(directory)}, stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(directory.iterdir()) == [], "it leaves something behind"
    return done.stdout


class TestDemo:
    def test_kills_a_run_when_half_of_a_step_is_saved(self, demo):
        assert [line.partition(": ")[2] for line in section(demo, 1)[1:]] == [
            "quote is done and saved",
            "charge is done and saved",
            "killed with SIGKILL while packing",
        ]

    def test_resumes_in_another_process_without_repeating_what_was_done(self, demo):
        lines = section(demo, 2)
        calls = rows(lines, "process  node")
        killed, resumed = calls[0][0], calls[-1][0]
        assert killed != resumed
        assert calls[0] == [killed, "quote", "finished"]
        # Two nodes run at the same time, so either may have started first.
        assert sorted(calls[1:3]) == [[killed, "charge", "finished"], [killed, "pack", "cut off"]]
        assert calls[3:] == [[resumed, "pack", "finished"], [resumed, "ship", "finished"]]
        assert "  graph.invoke(None, config): 3 x tea, 12 coins taken" in lines

    def test_forks_the_history_with_an_edited_state(self, demo):
        first, *forked = section(demo, 4)[1:]
        lines = [re.sub(r"[0-9a-f]{8}", "ID", line.strip()) for line in (first, *forked)]
        assert lines == [
            "* ID   4 loop    ship: sent",
            "* ID   3 loop    charge: receipt; pack: parcel  -> ship",
            "* ID   2 update  quote: price  -> charge, pack",
            "| * ID   3 loop    ship: sent",
            "| * ID   2 loop    charge: receipt; pack: parcel  -> ship",
            "|/",
            "* ID   1 loop    quote: price  -> charge, pack",
            "* ID   0 loop    input: item, count  -> quote",
            "* ID  -1 input   input: item, count  -> start",
        ]
        assert "10 coins taken" in section(demo, 3)[-1]

    def test_shows_what_differs_between_the_branches(self, demo):
        assert [line.strip() for line in section(demo, 5)[1:]] == [
            "~ price: 12 -> 10",
            "~ receipt: 12 coins taken -> 10 coins taken",
            "~ sent: 3 x tea, 12 coins taken -> 3 x tea, 10 coins taken",
        ]

    def test_ends_with_what_to_read_next(self, demo):
        named = re.findall(r"^  (\S+\.md) ", demo.rpartition("\n\n")[2], flags=re.MULTILINE)
        root = Path(__file__).resolve().parents[2]
        assert named
        assert [page for page in named if not root.joinpath(page).is_file()] == []

    def test_is_plain_ascii_without_colours_in_a_pipe(self, demo):
        assert demo.isascii()
        assert "\x1b" not in demo

    def test_has_colours_on_a_terminal(self):
        assert "\x1b[31m" in on_a_terminal(os.environ)

    def test_has_none_there_either_if_asked(self):
        assert "\x1b" not in on_a_terminal({**os.environ, "NO_COLOR": "1"})

    def test_works_in_an_odd_temporary_directory(self, tmp_path):
        directory = tmp_path / "two words" / "100%41" / "a#b?c=d&mode=memory" / "été" / "file:x"
        directory.mkdir(parents=True)
        done = milepost("demo", env={**os.environ, "TMPDIR": str(directory)})
        assert (done.returncode, done.stderr) == (0, "")
        assert list(directory.iterdir()) == []

    def test_works_if_the_temporary_directory_does_not_exist(self, tmp_path):
        done = milepost(
            "demo", env={**os.environ, "TMPDIR": str(tmp_path / "nowhere")}, cwd=tmp_path
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_works_beside_files_that_are_called_like_modules(self, tmp_path):
        for module in ("milepost", "sqlite3", "typing_extensions"):
            tmp_path.joinpath(f"{module}.py").write_text("raise SystemExit('the wrong one')")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "milepost.cli", "demo"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_stops_quietly_when_nobody_reads_on(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as nobody:
            done = subprocess.run(
                [sys.executable, "-m", "milepost.cli", "demo"],
                stdout=nobody,
                stderr=subprocess.PIPE,
                text=True,
                timeout=PATIENCE,
            )
        assert (done.returncode, done.stderr) == (1, "")

    def test_says_so_if_the_other_process_fails(self, monkeypatch, capsys, tmp_path):
        from milepost.cli import main

        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\necho saved quote\n")
        broken.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(broken))
        assert main(["demo"]) == 1
        assert "ended by itself" in capsys.readouterr().out


def on_a_terminal(environment) -> str:
    """What the demo prints if its output is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "milepost.cli", "demo"],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={key: value for key, value in environment.items() if key != "FORCE_COLOR"},
    ):
        os.close(theirs)
        output = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how a terminal says that its last user has gone
                break
            if not part:
                break
            output += part
    os.close(ours)
    return output.decode()


def test_the_script_is_the_main_function():
    [script] = entry_points(group="console_scripts", name="milepost")
    assert script.value == "milepost.cli:main"
    assert callable(script.load())


def test_the_version_is_that_of_the_package():
    done = milepost("--version")
    assert (done.returncode, done.stdout) == (0, f"milepost {version('milepost')}\n")


def test_no_command_shows_the_commands():
    done = milepost()
    assert done.returncode == 2
    assert "demo" in done.stderr


def test_an_unknown_command_is_an_error_that_names_the_known_ones():
    done = milepost("dmeo")
    assert done.returncode == 2
    assert "demo" in done.stderr


def test_an_error_of_the_system_is_one_line(monkeypatch, capsys):
    from milepost.cli import main

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "milepost: [Errno 28] No space left on device\n"


def test_an_interrupt_from_the_keyboard_is_no_traceback(monkeypatch):
    from milepost.cli import demo, main

    def interrupted(_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    assert main(["demo"]) == 130
