"""The guides are followed as a reader would: files are written, commands are run, and what is
printed is what the page shows.

In `docs/tutorial`, `docs/concepts`, `docs/how-to` and `docs/operations` a block of Python with a
title is a file, those without are one program; the lines of a `sh` block are
commands; a `text` block is what the block before it prints, where `…` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from redis_servers import free_port

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = sorted(
    page
    for room in ("tutorial", "concepts", "how-to", "operations")
    for page in (DOCS / room).glob("*.md")
)
SECONDS = 120
PORT = re.compile(r"\b872\d\b")
"""A server of a page. Another run of the tests may listen there."""


class Block(NamedTuple):
    language: str
    title: str | None
    text: str


def blocks(page: Path, port: str) -> list[Block]:
    text = PORT.sub(port, page.read_text("utf-8"))
    found = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", text, re.M | re.S)
    return [Block(language, _title(rest), text) for language, rest, text in found]


def is_piece(block: Block) -> bool:
    return block.language == "python" and block.title is None


def _title(rest: str) -> str | None:
    match = re.search(r'title="([^"]+)"', rest)
    return match[1] if match else None


def is_like(printed: str, shown: str) -> bool:
    """Whether it is what the page shows, but for `…`."""
    pattern = "".join(".*?" if part == "…" else re.escape(part) for part in re.split("(…)", shown))
    return re.fullmatch(pattern, printed, re.S) is not None


class Reader:
    """Follows one page in an empty folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        binaries = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
            "PYTHONWARNINGS": "error",
            **environment,
        }

    def follow(self, page: Path) -> None:
        told: list[tuple[str, str]] = []
        """What blocks printed, and what the page shows."""
        printed, at = "", blocks(page, str(free_port()))
        pieces = self._run_pieces([one.text for one in at if is_piece(one)])
        for block in at:
            if is_piece(block):
                printed = pieces.pop(0)
            elif block.language == "python":
                assert block.title is not None
                self.folder.joinpath(block.title).write_text(block.text, "utf-8")
            elif block.language == "sh":
                printed = self._run("bash", "-e", "-c", block.text)
            elif block.language == "text":
                told.append((printed, block.text))
        for printed, shown in told:
            assert is_like(printed, shown), f"shown:\n{shown}\nprinted:\n{printed}"

    def _run_pieces(self, pieces: list[str]) -> list[str]:
        """What each block without a title prints; all of them are one program."""
        if not pieces:
            return []
        whole = "".join(f"print('\\f', end='')\n{piece}\n" for piece in pieces)
        self.folder.joinpath("page.py").write_text(whole, "utf-8")
        return self._run(sys.executable, "page.py").split("\f")[1:]

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """What a page needs of the outside: an address of a PostgreSQL server, if it names one."""
    page: Path = request.getfixturevalue("page")
    found = {} if os.environ.get("MILEPOST_LONG") else {"JOBS": "1000"}
    if "DB_URI" in page.read_text("utf-8"):
        found["DB_URI"] = request.getfixturevalue("uri")
    return found


def marked(page: Path) -> Any:
    """The parameter of a test, with the marker of those that need a server."""
    marks = [pytest.mark.postgres] if "DB_URI" in page.read_text("utf-8") else []
    return pytest.param(page, id=f"{page.parent.name}/{page.stem}", marks=marks)


@pytest.mark.parametrize("page", [marked(page) for page in GUIDES])
def test_a_guide_can_be_followed(page, environment, tmp_path):
    Reader(tmp_path, environment).follow(page)
