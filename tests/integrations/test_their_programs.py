"""LangGraph's programs, unchanged, on milepost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples" / "from_langgraph").glob("*.py"))
HOOK = "milepost.integrations.langgraph"


def python(*arguments: str, cwd: Path = ROOT, check: bool = True) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def in_process(code: str) -> subprocess.CompletedProcess:
    return python("-c", f"from {HOOK}._alias import install\ninstall()\n{code}", check=False)


def test_there_are_five_programs():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda p: p.stem)
def test_a_program_prints_the_same_on_both_libraries(program):
    theirs = python("-W", "error", str(program))
    ours = python("-W", "error", "-m", HOOK, str(program))
    assert ours.stdout == theirs.stdout
    assert len(ours.stdout.splitlines()) >= 5


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda p: p.stem)
def test_a_program_says_nothing_of_milepost(program):
    assert "import milepost" not in program.read_text("utf-8")
    assert "from milepost" not in program.read_text("utf-8")


def test_the_command_line_runs_a_program_with_its_arguments(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, langgraph.graph, helper\n"
        "print(sys.argv[1:], __name__, langgraph.graph.StateGraph.__module__, helper.here)\n"
        "sys.exit(3)\n"
    )
    tmp_path.joinpath("helper.py").write_text("here = 'beside it'\n")
    done = python(
        "-m", "milepost.cli", "run", "--as-langgraph", str(program), "-x", "y", check=False
    )
    assert done.returncode == 3
    assert done.stdout.split("\n")[0] == "['-x', 'y'] __main__ milepost.graph.state beside it"


@pytest.mark.parametrize("command", [(HOOK,), ("milepost.cli", "run", "--as-langgraph")])
def test_a_module_is_run_by_its_name(command, tmp_path):
    tmp_path.joinpath("tool.py").write_text(
        "import sys\nfrom langgraph.types import Send\nprint(Send('a', 1), sys.argv[1:])\n"
    )
    done = python("-m", *command, "-m", "tool", "arg", "--option", cwd=tmp_path)
    assert done.stdout == "Send(node='a', arg=1) ['arg', '--option']\n"


def test_an_error_of_the_program_is_shown_as_python_shows_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("from langgraph.errors import InvalidUpdateError as E\nraise E('mine')\n")
    done = python("-m", "milepost.cli", "run", "--as-langgraph", str(program), check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("InvalidUpdateError: mine\n")


def test_without_a_program_there_is_a_usage_line():
    done = python("-m", "milepost.cli", "run", "--as-langgraph", check=False)
    assert done.returncode == 2
    assert "which program?" in done.stderr


def test_a_program_that_is_not_there_is_named_in_one_line(tmp_path):
    program = str(tmp_path / "none.py")
    done = python("-m", "milepost.cli", "run", "--as-langgraph", program, check=False)
    assert (done.returncode, done.stderr) == (1, f"milepost: There is no file '{program}'.\n")


# -- what is answered


@pytest.mark.parametrize(
    "line",
    [
        "from langgraph.graph import START, END, StateGraph, MessagesState, add_messages",
        "from langgraph.graph.message import add_messages",
        "from langgraph.graph.state import CompiledStateGraph",
        "from langgraph.types import Command, Interrupt, RetryPolicy, Send, interrupt",
        "from langgraph.func import entrypoint, task",
        "from langgraph.checkpoint.memory import InMemorySaver, MemorySaver",
        "from langgraph.checkpoint.sqlite import SqliteSaver",
        "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver",
        "from langgraph.checkpoint.base import BaseCheckpointSaver",
        "from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer",
        "from langgraph.store.memory import InMemoryStore",
        "from langgraph.store.base import BaseStore",
        "from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore",
        "from langgraph.store.postgres import AsyncPostgresStore, PostgresStore",
        "from langgraph.config import get_config, get_store, get_stream_writer",
        "from langgraph.runtime import Runtime, get_runtime",
        "from langgraph.managed.is_last_step import IsLastStep, RemainingSteps",
        "from langgraph.channels.ephemeral_value import EphemeralValue",
        "from langgraph.errors import GraphInterrupt, GraphRecursionError, InvalidUpdateError",
        "from langgraph.constants import START, TAG_NOSTREAM",
        "from langgraph.utils.config import ensure_config, get_config, get_store",
        "from langgraph.utils.runnable import RunnableCallable",
        "from langgraph._internal._constants import CONFIG_KEY_RUNTIME",
        # Private names that published packages import.
        "from langgraph.store.base import NOT_PROVIDED, _ensure_ttl as ttl\n"
        "assert [ttl({'default_ttl': 5}), ttl(None), ttl({'default_ttl': 5}, None)] == [5, None, None]",
        "import langgraph.graph as g; assert g.StateGraph.__module__.startswith('milepost')",
        "from langgraph.graph import *; StateGraph, END",
    ],
)
def test_these_imports_are_answered(line):
    done = in_process(
        f"{line}\nimport sys\n"
        "real = [n for n, m in sys.modules.items() if n.startswith('langgraph.') and m.__spec__.origin]\n"
        "assert real == [], real"
    )
    assert done.returncode == 0, done.stderr


def test_what_is_injected_into_a_tool_is_told_under_langgraphs_name():
    """langchain-quickjs asks, to call tools as ToolNode does."""
    pytest.importorskip("langchain_core")
    done = in_process(
        "from typing import Annotated\n"
        "from langchain_core.tools import tool\n"
        "from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime\n"
        "from langgraph.prebuilt.tool_node import _get_all_injected_args\n"
        "@tool\n"
        "def look(x: int, all: Annotated[dict, InjectedState], a: Annotated[str, InjectedState('b')],\n"
        "         s: Annotated[object, InjectedStore()], r: ToolRuntime) -> str:\n"
        "    'Look.'\n"
        "found = _get_all_injected_args(look)\n"
        "assert found.state == {'all': None, 'a': 'b'}, found\n"
        "assert (found.store, found.runtime) == ('s', 'r'), found\n"
    )
    assert done.returncode == 0, done.stderr


def test_langgraph_need_not_be_installed(tmp_path):
    """The real one is nowhere on the path, and nothing looks for it."""
    done = in_process(
        "import sys\nfrom langgraph.graph import StateGraph\n"
        "assert not any('site-packages/langgraph' in str(getattr(m, '__file__', ''))"
        " for m in sys.modules.values())"
    )
    assert done.returncode == 0, done.stderr


# -- what is not


def test_a_name_that_is_not_there_fails_at_its_import_with_a_list():
    done = in_process("from langgraph.graph import DigraphState")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: milepost has no langgraph.graph.DigraphState.")
    assert "Of langgraph.graph it has: " in last
    assert "StateGraph" in last


LACKING = {
    "from langgraph.graph.graph import CompiledGraph": "what it compiles to in langgraph.graph.s",
    "from langgraph.checkpoint.mongodb import MongoDBSaver": "a package of its own",
    "import langgraph.cli": "langgraph.cli",
    "from langgraph import testing": "langgraph.testing",
    "from langgraph._internal._scratchpad import PregelScratchpad": "langgraph._internal._scratchpad",
}


@pytest.mark.parametrize("line", LACKING)
def test_a_module_that_is_not_there_fails_at_its_import_with_advice_and_a_list(line):
    done = in_process(line)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: milepost has nothing in place of langgraph.")
    assert LACKING[line] in last
    assert "langgraph.checkpoint.memory" in last


def test_a_package_that_others_have_put_below_langgraph_is_loaded_from_where_it_is(tmp_path):
    folder = tmp_path / "langgraph" / "checkpoint" / "elsewhere"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from langgraph.checkpoint.memory import InMemorySaver\n"
        "from langgraph.checkpoint.elsewhere.names import NAME\n"
        "class ElsewhereSaver(InMemorySaver): name = NAME\n"
    )
    (folder / "names.py").write_text("NAME = 'elsewhere'")
    done = in_process(
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from langgraph.checkpoint import elsewhere\n"
        "from langgraph.checkpoint.elsewhere import ElsewhereSaver\n"
        "from milepost.checkpoint.base import BaseCheckpointSaver\n"
        "assert issubclass(ElsewhereSaver, BaseCheckpointSaver)\n"
        "print(elsewhere.ElsewhereSaver.name)"
    )
    assert done.stdout == "elsewhere\n", done.stderr


def test_a_program_may_do_without_what_is_not_there():
    done = in_process(
        "try:\n    from langgraph.checkpoint.mongodb import MongoDBSaver\n"
        "except ImportError:\n    print('by hand')"
    )
    assert done.stdout == "by hand\n"


def test_once_langgraph_is_imported_the_hook_refuses():
    code = f"import langgraph.types\nfrom {HOOK}._alias import install\ninstall()"
    done = python("-c", code, check=False)
    assert "LangGraph itself is already imported here" in done.stderr


def test_every_module_that_is_listed_can_be_imported():
    from milepost.integrations.langgraph._alias import offered

    modules = offered()
    assert {"langgraph", "langgraph.graph.state", "langgraph.checkpoint.sqlite.aio"} <= {*modules}
    assert not [name for name in modules if "._" in name]
    done = in_process(f"from importlib import import_module\nfor n in {modules}: import_module(n)")
    assert done.returncode == 0, done.stderr


def test_the_first_line_of_a_program_may_switch_it_on():
    code = "import milepost.as_langgraph\nfrom langgraph.graph import StateGraph\n"
    done = python("-c", code + "print(StateGraph.__module__)")
    assert done.stdout == "milepost.graph.state\n"


def test_a_node_finds_langgraphs_functions_in_its_config():
    done = in_process(READS_AND_SENDS)
    assert done.stdout == "['a'] ['a', 'b'] ['a', 'b', 'c']\n", done.stderr


def test_a_node_finds_the_runtime_in_its_config():
    done = in_process(READS_RUNTIME)
    assert done.stdout == "Ada True\n", done.stderr


READS_RUNTIME = """
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

def node(state, config):
    runtime = config["configurable"]["__pregel_runtime"]
    print(runtime.context["user"], runtime.store is store)

store = InMemoryStore()
graph = StateGraph(dict).add_node("node", node).add_edge(START, "node").compile(store=store)
graph.invoke({}, context={"user": "Ada"})
"""


READS_AND_SENDS = """
import operator
from typing import Annotated, TypedDict
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph._internal._constants import CONF, CONFIG_KEY_READ, CONFIG_KEY_SEND

class State(TypedDict):
    log: Annotated[list, operator.add]

def node(state):
    keys = get_config()[CONF]
    read, send = keys[CONFIG_KEY_READ], keys[CONFIG_KEY_SEND]
    before = read("log")
    send([("log", ["b"])])
    assert read(list(read.args[1]), True) == {"log": read("log", True)}
    print(before, read("log", True), end=" ")
    return {"log": ["c"]}

graph = StateGraph(State).add_node(node).add_edge(START, "node").compile()
print(graph.invoke({"log": ["a"]})["log"])
"""


# -- pytest


@pytest.mark.parametrize("workers", ["0", "1"])
def test_pytest_runs_tests_that_were_written_for_langgraph(tmp_path, workers):
    tmp_path.joinpath("conftest.py").write_text("import langgraph.graph\n")
    tmp_path.joinpath("test_theirs.py").write_text(
        "from langgraph.graph import StateGraph\n"
        "def test_it(): assert StateGraph.__module__ == 'milepost.graph.state'\n"
    )
    done = python(
        *("-m", "pytest", "--as-langgraph", "-n", workers, "-p", "no:cacheprovider"),
        str(tmp_path),
        cwd=tmp_path,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_may_be_configured_with_warnings_of_a_package_that_needs_langgraph(tmp_path):
    tmp_path.joinpath("theirs.py").write_text(
        "from langgraph.graph import StateGraph\nclass Odd(UserWarning): pass\n"
    )
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\nfilterwarnings = ignore::theirs.Odd\n")
    tmp_path.joinpath("test_theirs.py").write_text(
        "import theirs\n"
        "def test_it(): assert theirs.StateGraph.__module__ == 'milepost.graph.state'\n"
    )
    done = python(
        *("-m", "pytest", "--as-langgraph", "-n", "0", "-p", "no:cacheprovider"),
        cwd=tmp_path,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


# -- what an import brings along


def test_milepost_alone_imports_neither_langgraph_nor_langchain():
    code = (
        "import sys, milepost, milepost.graph, milepost.func, milepost.cli, milepost.checkpoint.sqlite\n"
        "import milepost.integrations.langgraph, milepost.integrations.langgraph._alias\n"
        "print([n for n in sys.modules if n.split('.')[0].startswith(('langgraph', 'langchain'))])"
    )
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("missing", ["langgraph", "xxhash"])
def test_without_langgraph_an_import_says_how_to_install_it(missing):
    code = (
        f"import sys\nsys.modules['{missing}'] = None\nfrom milepost.cli import main\n"
        "main(['import', '--from-langgraph', 'sqlite:///a.db', '--to', 'sqlite:///b.db'])"
    )
    assert "pip install 'milepost[langgraph]'" in python("-c", code).stderr


@pytest.mark.parametrize("name", ["as_langgraph", "from_langgraph"])
def test_without_langgraph_the_adapters_say_how_to_install_it(name):
    code = (
        "import sys\nsys.modules['langgraph'] = None\n"
        f"import {HOOK} as bridge\n"
        "from milepost.errors import MissingDependencyError\n"
        f"try: bridge.{name}\n"
        "except MissingDependencyError as error: print(error)"
    )
    done = python("-c", code)
    assert "pip install 'milepost[langgraph]'" in done.stdout
