"""Promises about the project as a whole: its layers, its imports, what it ships."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "milepost"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# -- the layers


def test_the_contracts_between_the_rooms_hold():
    """They are in pyproject.toml, under `tool.importlinter`."""
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KEPT" in done.stdout


def name_of(file: Path) -> str:
    """`channels/topic.py` -> `channels.topic`, `graph/__init__.py` -> `graph`."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_file_waits_for_one_of_the_few_threads_that_asyncio_has():
    """If all of those wait for what needs one of them, nothing goes on; `awaiting` adds threads."""
    few = {"to_thread", "run_in_executor", "ThreadPoolExecutor"}
    found = {
        f"{name_of(file)}: {used}"
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if (used := getattr(node, "attr", None) or getattr(node, "name", None)) in few
    }
    assert found == set()


# -- what an import costs

HEAVY = ("langchain", "langgraph", "langsmith", "pydantic", "psycopg", "sqlite3", "_sqlite3")
HEAVY += ("aiosqlite", "sqlite_vec", "numpy", "Crypto", "cryptography")


@pytest.mark.parametrize(
    "module", ["milepost", "milepost.graph", "milepost.checkpoint.memory", "milepost.cli"]
)
def test_an_import_loads_nothing_heavy(module):
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = json.loads(done.stdout)
    assert module in loaded
    assert [name for name in loaded if name.partition(".")[0].startswith(HEAVY)] == []


ON_DEMAND = {
    "milepost": "milepost._internal.version",
    "milepost.graph": "milepost.graph.message",
    "milepost.graph.state": "milepost.graph._compiled_state",
}
"""Packages with public names that are imported when they are asked for, and a home of such."""


@pytest.mark.parametrize(("module", "home"), ON_DEMAND.items())
def test_names_on_demand_are_listed_before_they_are_loaded_and_found_when_asked_for(module, home):
    program = f"""
import sys, {module} as package
assert {home!r} not in sys.modules, "loaded although nobody asked"
names = package.__all__
assert set(names) <= set(dir(package))
assert all(getattr(package, name) is vars(package)[name] for name in names)
try:
    package.Nonsense
except AttributeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == f"module '{module}' has no attribute 'Nonsense'"


# -- the documented import paths

DOCUMENTED = {
    # As the reference documents import them, with the root changed.
    "milepost.checkpoint.base": ["StateSnapshot"],
    "milepost.checkpoint.memory": ["InMemorySaver"],
    "milepost.checkpoint.postgres": ["PostgresSaver"],
    "milepost.checkpoint.postgres.aio": ["AsyncPostgresSaver"],
    "milepost.checkpoint.serde.encrypted": ["EncryptedSerializer"],
    "milepost.checkpoint.sqlite": ["SqliteSaver"],
    "milepost.checkpoint.sqlite.aio": ["AsyncSqliteSaver"],
    "milepost.graph": ["StateGraph", "START", "END"],
    "milepost.types": ["Checkpointer", "Durability", "ensure_valid_checkpointer", "interrupt"],
}

NAMED = {
    # Named in their text as being there.
    "milepost.channels": ["DeltaChannel"],
    "milepost.checkpoint.base": [
        "BaseCheckpointSaver",
        "Checkpoint",
        "CheckpointMetadata",
        "CheckpointTuple",
        "PregelTask",
        "SerializerProtocol",
        "WRITES_IDX_MAP",
    ],
    "milepost.checkpoint.memory": ["MemorySaver"],
    "milepost.checkpoint.postgres.shallow": ["ShallowPostgresSaver", "AsyncShallowPostgresSaver"],
    "milepost.checkpoint.serde.base": ["CipherProtocol", "SerializerProtocol"],
    "milepost.checkpoint.serde.jsonplus": ["JsonPlusSerializer"],
    "milepost.checkpoint.serde.types": ["_DeltaSnapshot"],
    "milepost.types": ["Command", "PregelTask", "Send", "StateSnapshot"],
}

OURS = {"milepost": ["StateGraph", "START", "END", "interrupt", "Command", "Send"]}

NEEDS = {"milepost.checkpoint.postgres": "psycopg"}
"""What has to be installed for modules under these names: their extra brings it."""

PATHS = sorted(
    {
        (module, name)
        for table in (DOCUMENTED, NAMED, OURS)
        for module, names in table.items()
        for name in names
    }
)


@pytest.mark.parametrize(("module", "name"), PATHS, ids=[f"{m}.{n}" for m, n in PATHS])
def test_every_documented_import_path_exists(module, name):
    for prefix, driver in NEEDS.items():
        if module == prefix or module.startswith(f"{prefix}."):
            pytest.importorskip(driver, exc_type=ImportError)
    assert hasattr(importlib.import_module(module), name)


def test_the_same_thing_under_two_paths_is_one_object():
    from milepost import types
    from milepost.checkpoint import base, memory
    from milepost.checkpoint.serde import types as serde_types

    assert base.StateSnapshot is types.StateSnapshot
    assert base.PregelTask is types.PregelTask
    assert memory.MemorySaver is memory.InMemorySaver
    assert serde_types._DeltaSnapshot is types._DeltaSnapshot


# -- what is shipped


def project() -> dict:
    return tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))


def test_there_are_two_dependencies_at_run_time():
    names = [re.match(r"[\w.-]+", wanted)[0] for wanted in project()["project"]["dependencies"]]
    assert sorted(name.lower().replace("-", "_") for name in names) == [
        "ormsgpack",
        "typing_extensions",
    ]


def test_the_package_says_that_it_is_typed():
    assert PACKAGE.joinpath("py.typed").is_file()
    assert "py.typed" in project()["tool"]["setuptools"]["package-data"]["milepost"]


def test_the_version_is_that_of_the_project_file():
    assert importlib.import_module("milepost").__version__ == project()["project"]["version"]


def test_the_source_distribution_has_what_its_tests_read():
    """All that is at the root, except for what setuptools adds by itself."""
    words = (ROOT / "MANIFEST.in").read_text("utf-8").split()
    files = [*ROOT.glob("*.md"), *ROOT.glob("*.yml"), *ROOT.glob(".*.yaml"), ROOT / "LICENSE"]
    missing = [f.name for f in files if not any(f.match(word) for word in words)]
    assert files
    assert missing == []


def test_every_folder_with_code_is_a_package():
    folders = {file.parent for file in SOURCES}
    assert [folder for folder in folders if not folder.joinpath("__init__.py").is_file()] == []


# -- what is written in the files

TEXT = {".py", ".md", ".toml", ".txt", ".sql", ".cfg", ".ini", ".yml", ".yaml", ".json", ".sh", ""}
SKIPPED = {"__pycache__", "dist", "build", "node_modules"}
ALLOWED_HIDDEN = {".ci", ".github", ".gitignore", ".pre-commit-config.yaml"}
LOCAL = re.compile(r"(?<![\w.:/-])/(?:home|root|Users|work|mnt|workspace)/\w")
"""A directory that only one machine has."""


def project_files(folder: Path = ROOT) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name not in ALLOWED_HIDDEN
        if hidden or path.name in SKIPPED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir() and not path.joinpath("pyvenv.cfg").exists():
            yield from project_files(path)
        elif path.is_file() and path.suffix in TEXT:
            yield path


def test_no_file_mentions_a_path_of_one_machine():
    found = []
    for path in project_files():
        text = path.read_text("utf-8")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in LOCAL.finditer(text)]
        if len(ROOT.parts) > 2 and str(ROOT) in text:
            found.append(f"{path.relative_to(ROOT)}: {ROOT}")
    assert found == []


MARKDOWN = sorted(path for path in project_files() if path.suffix == ".md")


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose)
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not page.parent.joinpath(link).exists()] == []


FILE_NAME = re.compile(r"`((?:src|tests|tools|bench|docs|examples|\.ci|\.github)/[\w./-]*)`")
SOURCE_NAME = re.compile(r"`((?:\w+/)+\w+\.py)`")


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    missing = [name for name in FILE_NAME.findall(text) if not ROOT.joinpath(name).exists()]
    sources = [f"/{path.relative_to(ROOT).as_posix()}" for path in project_files()]
    for name in SOURCE_NAME.findall(text):
        if not any(source.endswith(f"/{name}") for source in sources):
            missing.append(name)
    assert missing == []


NAME_IN_FILE = re.compile(r"`(\w+(?:\.\w+)?)(?:\(\))?` \(`((?:\w+/)*\w+\.py)`\)")


def names_defined_in(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            if isinstance(node, ast.ClassDef):
                names |= {
                    f"{node.name}.{inner.name}"
                    for inner in node.body
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                }
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_functions_that_the_architecture_names_are_where_it_says():
    text = ROOT.joinpath("ARCHITECTURE.md").read_text("utf-8")
    named = NAME_IN_FILE.findall(text)
    assert named, "it should name some, as `function` (`folder/file.py`)"
    assert [
        f"{name} in {file}" for name, file in named if name not in names_defined_in(PACKAGE / file)
    ] == []
