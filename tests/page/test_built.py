"""The built files: those of the present sources, with nothing that a strict policy refuses."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "src" / "milepost" / "server" / "_page"


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_page", ROOT / "tools" / "build_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_page"] = module
    spec.loader.exec_module(module)
    return module


def test_the_built_page_is_that_of_its_sources(builder):
    assert builder.is_current(), "run: python tools/build_page.py"


def test_a_change_of_a_source_or_of_a_built_file_is_noticed(builder, tmp_path, monkeypatch):
    for name in ("SOURCES", "BUILT"):
        copy = tmp_path / name
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(getattr(builder, name), copy, ignore=ignored)
        monkeypatch.setattr(builder, name, copy)
    monkeypatch.setattr(builder.signature, "__defaults__", (tmp_path / "BUILT",))
    assert builder.is_current()
    for changed in (tmp_path / "SOURCES" / "src" / "main.tsx", tmp_path / "BUILT" / "index.html"):
        before = changed.read_bytes()
        changed.write_bytes(before + b" ")
        assert not builder.is_current()
        changed.write_bytes(before)
        assert builder.is_current()


def test_the_page_has_no_script_or_style_of_its_own_and_asks_for_nothing_elsewhere():
    html = BUILT.joinpath("index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", html) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", html) == []
    named = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert named
    assert [name for name in named if not BUILT.joinpath(name).is_file()] == []
    for file in BUILT.rglob("*.css"):
        assert re.findall(r"@import|url\(\s*['\"]?(?:https?:)?//", file.read_text("utf-8")) == []
    for file in BUILT.rglob("*.js"):
        text = file.read_text("utf-8")
        assert re.findall(r"\beval\(|new Function\(|document\.write", text) == []
        used = set(re.findall(r"https?://[\w.]+", text))
        assert used <= {"http://www.w3.org"}, "names of SVG and MathML, which are no addresses"


def test_data_never_becomes_markup():
    files = list(ROOT.joinpath("page", "src").rglob("*.ts*"))
    assert len(files) > 10
    for file in files:
        text = file.read_text("utf-8")
        unsafe = r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|srcdoc|DOMParser"
        assert re.findall(unsafe, text) == [], file.name


def test_licenses_of_the_libraries_in_the_page_are_with_it():
    text = BUILT.joinpath("LICENSES.txt").read_text("utf-8")
    package = json.loads(ROOT.joinpath("page", "package.json").read_text("utf-8"))
    for name in package["dependencies"]:
        assert name in text
    assert text.count("Permission is hereby granted") >= len(package["dependencies"])


def test_the_lock_file_names_versions_and_hashes_and_no_host():
    lock = json.loads(ROOT.joinpath("page", "package-lock.json").read_text("utf-8"))
    assert len(lock["packages"]) > 10
    for name, package in lock["packages"].items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-")


@pytest.mark.skipif(not os.environ.get("MILEPOST_LONG"), reason="MILEPOST_LONG is not set")
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_building_again_gives_the_same_bytes(builder, tmp_path):
    builder.build(tmp_path)
    fresh = {path.relative_to(tmp_path): path.read_bytes() for path in builder.files_in(tmp_path)}
    kept = {path.relative_to(BUILT): path.read_bytes() for path in builder.files_in(BUILT)}
    assert fresh == kept
