"""Agents of other packages, as they are installed, on milepost: they print what they print on
LangGraph."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "frameworks"
NEEDED = {
    "deep_agent": "deepagents",
    "middleware_agent": "langchain.agents",
    "supervisor": "langgraph_supervisor",
    "swarm": "langgraph_swarm",
}


def printed(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=FOLDER, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "MilepostWarning" not in done.stderr
    return done.stdout


@cache
def on_langgraph(program: str) -> str:
    return printed(f"{program}.py")


def test_there_is_a_program_for_each_framework():
    assert sorted(NEEDED) == sorted(p.stem for p in FOLDER.glob("*.py") if "scripted" not in p.stem)


@pytest.mark.parametrize("prebuilt", ["ours", "original"])
@pytest.mark.parametrize("program", NEEDED)
def test_a_framework_prints_the_same_on_both_libraries(program, prebuilt):
    """With `langgraph.prebuilt` answered by milepost, and with the wheel of that name."""
    pytest.importorskip(NEEDED[program].partition(".")[0])
    original = ["--original", "prebuilt"] if prebuilt == "original" else []
    ours = printed("-m", "milepost.cli", "run", "--as-langgraph", *original, f"{program}.py")
    assert ours == on_langgraph(program)
    assert len(ours.splitlines()) > 10
