"""LangChain is loaded when something of it is used; without it, the error says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], capture_output=True, text=True, cwd=ROOT
    )


@pytest.mark.parametrize(
    "module", ["milepost.graph", "milepost.prebuilt", "milepost.prebuilt.interrupt"]
)
def test_importing_it_loads_no_langchain(module):
    done = python(
        "-c",
        f"import sys, {module}\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('langchain_core', 'pydantic')])",
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", ["ToolNode", "create_react_agent", "ValidationNode"])
def test_without_langchain_the_error_says_what_to_install(name):
    done = python(
        "-c",
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'langchain_core':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"from milepost.prebuilt import {name}",
    )
    assert "pip install 'milepost[langchain]'" in done.stderr.splitlines()[-1]


def test_the_example_pays_once():
    done = python("examples/react_agent.py")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "failed: the van has broken down",
        "asked: pay 30?",
        "paid, with an idempotency key of 36 characters",
        "failed again: the van has broken down",
        "shipped",
        "Done: paid 30, shipped to home.",
    ]


def test_names_are_those_of_langgraph():
    import langgraph.prebuilt as theirs

    import milepost.prebuilt as ours

    assert set(theirs.__all__) <= set(ours.__all__)
    assert set(ours.__all__) <= set(dir(ours))
