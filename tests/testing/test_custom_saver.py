"""The page about savers of your own: its code makes a saver that passes the suite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from milepost.testing import FaultySaver, all_clauses

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT.joinpath("docs/custom-saver.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


TOP, *METHODS, TESTS, REPORT, FAULTS = blocks("python")
PROGRAM = "\n".join([TOP, *(indent(method, "    ") for method in METHODS)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a reader has who has copied the blocks of the page."""
    tmp_path.joinpath("directory_saver.py").write_text(PROGRAM, "utf-8")
    tmp_path.joinpath("test_directory_saver.py").write_text(TESTS, "utf-8")
    # Power cuts are not among the clauses, and waiting for the disk takes longer than all of them.
    patch = "import os\n\nos.fsync = lambda descriptor: None\n"
    tmp_path.joinpath("conftest.py").write_text(patch, "utf-8")
    return tmp_path


def python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=project, capture_output=True, text=True
    )


def test_the_saver_of_the_page_is_the_example():
    assert ROOT.joinpath("examples/directory_saver.py").read_text("utf-8") == PROGRAM


def test_the_saver_of_the_page_passes_the_suite(project):
    quiet = ("-p", "no:cacheprovider", "-p", "no:xdist")
    done = python(project, "-m", "pytest", "-v", *quiet)
    assert "failed" not in done.stdout.splitlines()[-1], done.stdout[-2000:]
    assert done.returncode == 0
    said = re.sub(r" +\[ *\d+%\]$", "", done.stdout, flags=re.MULTILINE)
    for line in blocks("text")[0].splitlines():
        test, _, status = line.partition(" ")
        assert re.search(rf"{re.escape(test)} {status.split()[0]}", said), line


def test_three_lines_are_enough():
    assert len([line for line in TESTS.splitlines() if line]) == 3


def test_the_report_of_the_page_shows_no_failure(project):
    project.joinpath("report.py").write_text(f"import conftest\n{REPORT}", "utf-8")
    done = python(project, "report.py")
    assert (done.stderr, done.returncode) == ("", 0)
    passed, failed, skipped = map(int, done.stdout.split())
    chosen = 2 * len(all_clauses(["put", "put_writes", "prune"]))
    assert (failed, passed + skipped) == (0, chosen)
    assert passed == len(all_clauses(["put", "put_writes"]))


def test_the_faults_of_the_page_can_be_asked_for():
    names: dict[str, object] = {}
    exec(FAULTS, names)
    assert isinstance(names["saver"], FaultySaver)


def test_the_page_names_every_group():
    table = PAGE.partition("| group |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert sorted(named) == sorted({clause.group for clause in all_clauses()})
