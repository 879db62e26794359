"""The site is built from the pages, without the network, and leaves no public module out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from public_surface import public_modules

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    loaded = re.findall(r'(?:src|href)="(https?://[^"]+)"', front)
    assert not [one for one in loaded if one.endswith((".js", ".css"))]


def test_every_public_module_has_its_place_in_the_reference():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    named = {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)}
    assert named == set(public_modules())
