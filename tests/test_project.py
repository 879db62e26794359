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

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "milepost"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# -- the layers

LAYERS = (
    (
        "errors",
        "constants",
        "_native",
        "native",
        "deferred",
        "on_demand",
        "record",
        "forking",
        "stepper",
        "workers",
        "awaiting",
        "ids",
        "types",
        "managed",
        "messages",
    ),
    ("channels",),
    ("state",),
    ("checkpoint.serde",),
    ("sql",),
    ("checkpoint",),
    ("store", "cache"),
    ("runtime", "config"),
    ("graph",),
    ("func",),
    ("testing",),
    ("integrations",),
    ("cli", "__main__"),
)
"""From the top: a file imports from its own layer and from those above it, from no other."""

LOOK_DOWN = {"types", "checkpoint.base"}
"""Public modules with functions whose work is done further down: they import it when called."""


BY_NAME = {("runtime.bridge", "milepost.integrations.langchain")}
"""Where a module is looked up by its name instead, because it may only be there if wanted."""


def name_of(file: Path) -> str:
    """`channels/topic.py` -> `channels.topic`, `graph/__init__.py` -> `graph`."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> int:
    """The layer with the longest name that fits: `checkpoint.serde` before `checkpoint`."""
    fitting = [
        (len(prefix), at)
        for at, layer in enumerate(LAYERS)
        for prefix in layer
        if module == prefix or module.startswith(f"{prefix}.")
    ]
    assert fitting, f"milepost.{module} is in no layer: give it a place in LAYERS"
    return max(fitting)[1]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and (
        (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        or (isinstance(node.test, ast.Attribute) and node.test.attr == "TYPE_CHECKING")
    )


def imports_of(
    node: ast.AST, package: str, in_function: bool = False
) -> Iterator[tuple[str, int, bool]]:
    """Modules of milepost that are imported at run time: name, line, whether in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child):
            for other in child.orelse:
                yield from imports_of(other, package, in_function)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                yield alias.name, child.lineno, in_function
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno} of milepost.{package}: write it in full"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                found = inner if exists(inner) else str(child.module)
                yield found, child.lineno, in_function
        else:
            for looked_up in looked_up_by_name(child):
                if (package, looked_up) not in BY_NAME:
                    yield looked_up, child.lineno, in_function
            inside = in_function or isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
            )
            yield from imports_of(child, package, inside)


def looked_up_by_name(node: ast.AST) -> list[str]:
    """The module in `import_module("...")`, or those in `on_demand(__name__, {...})`."""
    match node:
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            return [module]
        case ast.Call(func=ast.Name(id="on_demand"), args=[_, homes]):
            return sorted(set(ast.literal_eval(homes).values()))
    return []


def exists(module: str) -> bool:
    path = ROOT.joinpath("src", *module.split("."))
    return path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()


def violations(file: Path) -> list[str]:
    module = name_of(file)
    found = []
    for imported, line, in_function in imports_of(ast.parse(file.read_text("utf-8")), module):
        root, _, inner = imported.partition(".")
        if root != "milepost":
            continue
        if not inner:
            found.append(f"line {line} imports the package itself; import the module it means")
        elif layer_of(inner) > layer_of(module) and not (in_function and module in LOOK_DOWN):
            found.append(f"line {line} imports {imported}, from a layer below")
    return found


@pytest.mark.parametrize(
    "file", [f for f in SOURCES if f != PACKAGE / "__init__.py"], ids=lambda file: name_of(file)
)
def test_a_file_imports_only_from_its_own_layer_and_those_above(file):
    assert violations(file) == []


def test_a_violation_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    file = tmp_path / "channels" / "bad.py"
    file.parent.mkdir()
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "from milepost import graph\n"
        "from milepost.types import Send\n"
        "if TYPE_CHECKING:\n"
        "    from milepost.runtime.plan import Task\n"
        "def late():\n"
        "    import milepost.runtime.session\n"
        "    return import_module('milepost.func.task')\n"
        "__getattr__, __dir__ = on_demand(__name__, {'Session': 'milepost.runtime.session'})\n"
    )
    assert violations(file) == [
        "line 2 imports milepost.graph, from a layer below",
        "line 7 imports milepost.runtime.session, from a layer below",
        "line 8 imports milepost.func.task, from a layer below",
        "line 9 imports milepost.runtime.session, from a layer below",
    ]


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


def test_the_architecture_lists_the_layers_in_this_order():
    text = ROOT.joinpath("ARCHITECTURE.md").read_text("utf-8")
    table = text.partition("| layer |")[2].partition("\n\n")[0].splitlines()[2:]
    listed = [re.findall(r"`([\w/.]+)`", row.split("|")[1]) for row in table]
    assert [
        sorted(name.removesuffix("/").removesuffix(".py").replace("/", ".") for name in names)
        for names in listed
    ] == [sorted(layer) for layer in LAYERS]


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
    "milepost.channels": "milepost.channels.topic",
    "milepost.graph": "milepost.graph.message",
    "milepost.graph.state": "milepost.graph.compiled",
    "milepost.runtime": "milepost.runtime.scope",
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


def test_every_folder_with_code_is_a_package():
    folders = {file.parent for file in SOURCES}
    assert [folder for folder in folders if not folder.joinpath("__init__.py").is_file()] == []


# -- what is written in the files

TEXT = {".py", ".md", ".toml", ".txt", ".sql", ".cfg", ".ini", ".yml", ".yaml", ".json", ".sh", ""}
SKIPPED = {"__pycache__", "dist", "build", "node_modules"}
ALLOWED_HIDDEN = {".ci", ".gitignore"}
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


FILE_NAME = re.compile(r"`((?:src|tests|bench|docs|examples|\.ci)/[\w./-]*)`")
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
