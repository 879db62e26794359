"""README's promises to a newcomer: its example runs as it stands and prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT.joinpath("README.md").read_text("utf-8")


def block(language: str) -> str:
    """The only block of code in this language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return found


def test_the_example_prints_what_is_shown_below_it(tmp_path):
    program = tmp_path / "example.py"
    program.write_text(block("python"), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == block("text")


def test_the_example_has_twenty_lines():
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 20


def test_the_example_is_also_a_file():
    assert ROOT.joinpath("examples/first_graph.py").read_text("utf-8") == block("python")


def test_the_two_commands_do_all_the_set_up():
    assert block("sh").splitlines() == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/milepost demo",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest",
    ]
