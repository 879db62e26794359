"""The pages in docs/: their blocks of Python run as they stand, and what they name is there."""

import builtins
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import milepost._internal.log
import milepost.errors
import milepost.integrations._otel.names

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))

RUNNER = """
import ast, asyncio, inspect, pathlib, sys, types
page = sys.modules["page"] = types.ModuleType("page")
for text in pathlib.Path("page.txt").read_text("utf-8").split("\\f"):
    code = compile(text, "page.txt", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, vars(page))
    if inspect.iscoroutine(done):
        asyncio.run(done)
"""
"""Runs blocks one after the other in one module; those that await something, on a loop."""

GRAPH = """
import operator
from typing import Annotated, Any, TypedDict
from {library}.graph import START, StateGraph
from {library}.types import interrupt
class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    question: str
def ask(state: State):
    return {{"log": [interrupt("sure?")]}}
builder = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
config = {{"configurable": {{"thread_id": "t-1"}}}}
input, values = {{"log": [1]}}, {{"log": [2]}}
"""
OURS, THEIRS = GRAPH.format(library="milepost"), GRAPH.format(library="langgraph")
MODEL = """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
class Script(BaseChatModel):
    _llm_type = "script"
    def bind_tools(self, tools, **kwargs):
        return self
    def _generate(self, messages, *args, **kwargs):
        calls = [{"name": "pay", "args": {"amount": n}, "id": str(n)} for n in (1, 2)]
        message = AIMessage("", tool_calls=[] if messages[-1].type == "tool" else calls)
        return ChatResult(generations=[ChatGeneration(message=message)])
keys = []
class bank:
    def pay(amount, idempotency_key):
        keys.append(idempotency_key)
        return "paid"
"""
POOL = """
from psycopg_pool import ConnectionPool
pool = ConnectionPool(DB_URI, open=True)
"""

RECEIVER = """
import os, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        received.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *said): pass
received = []
receiver = HTTPServer(("127.0.0.1", 0), Receiver)
serving = threading.Thread(target=receiver.serve_forever, daemon=True)
serving.start()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{receiver.server_port}"
os.environ["NO_PROXY"] = "127.0.0.1"
"""
"""What takes spans, in place of a tool that shows them."""

SETTINGS: dict[str, dict[int, str]] = {
    "command-line.md": {
        0: f"{OURS}\nfrom milepost.checkpoint.sqlite import SqliteSaver\n"
        "with SqliteSaver.from_conn_string('trips.db') as saver:\n"
        "    builder.compile(checkpointer=saver).invoke("
        "input, {'configurable': {'thread_id': 'trip-17'}})\n",
        1: "assert [c.path for c in changes] == [('log',)]\nassert first.nodes == ('__start__',)",
    },
    "logging.md": {},
    "observability.md": {
        0: RECEIVER,
        1: f"{OURS}\nfrom milepost.checkpoint.memory import InMemorySaver\n"
        "saver, thread_ids = InMemorySaver(), ['t-1']\n"
        "graph = builder.compile(checkpointer=saver)\nprint = lambda text: None",
        3: "assert [node for node, _ in time_of_nodes('t-1')] == ['ask']\n"
        "import io, sys\nerrors, sys.stderr = sys.stderr, io.StringIO()",
        4: "said, sys.stderr = sys.stderr.getvalue(), errors\n"
        "assert said == 'prune: 1 of 1 threads\\n'\nprovider.shutdown()\nreceiver.shutdown()\nserving.join()\nreceiver.server_close()\n"
        "assert b'invoke_workflow' in received[0]",
    },
    "from-langgraph.md": {
        0: THEIRS,
        1: f"{OURS}\nfrom langgraph.checkpoint.memory import InMemorySaver\ntheir_saver = InMemorySaver()",
        2: "graph.invoke(input, config)",
    },
    "prebuilt.md": {
        0: f"{MODEL}\nmodel = Script()",
        1: "assert len(keys) == len(set(keys)) == 2\nbound_model = Script()",
        2: "asked = graph.invoke({'messages': [('user', 'buy')]}, config)['__interrupt__']\n"
        "assert len(asked) == 2",
    },
    "ui.md": {},
    "savers.md": {
        0: OURS,
        3: "values = {'log': [2]}",
        4: "pool.close()\nfrom milepost.checkpoint.memory import InMemorySaver\n"
        "saver = InMemorySaver()\nbuilder.compile(checkpointer=saver).invoke(input, config)",
        5: "import sqlite3\nconn = sqlite3.connect('owned.db', check_same_thread=False)",
        6: "assert saver.list_threads() == []\nconn.close()\n"
        "from milepost.checkpoint.serde.encrypted import EncryptedSerializer\n"
        "serde = EncryptedSerializer.from_pycryptodome_aes(key=b'k' * 16)\n"
        "conn = sqlite3.connect('sealed.db', check_same_thread=False)",
        7: "conn.close()",
    },
    "serialization.md": {
        1: "from dataclasses import dataclass\nclass Money: ...",
        3: f"{OURS}\nbuilder.compile(checkpointer=saver).invoke(input, config)",
        4: "import os\nos.environ['MILEPOST_AES_KEY'] = 'k' * 32",
        5: "old, new = b'o' * 16, b'n' * 32",
        7: "assert saver.reencrypt()\nring.drop('2024')",
    },
    "store.md": {
        1: "from typing import Any as Context\nfrom milepost.runtime import Runtime\n"
        f"saver = None\n{OURS}",
        2: "from milepost.store.sqlite import SqliteStore\n"
        "from milepost.store.postgres.aio import AsyncPostgresStore\n"
        "from milepost.store.redis import RedisStore",
        3: "from milepost.store.memory import InMemoryStore\nstore = InMemoryStore()\n"
        "store.put(namespace, 'profile', {'name': '?'})",
        4: "assert item.value == {'name': '?'}",
        5: "import sqlite3\nconnection = sqlite3.connect('index.db', check_same_thread=False)\n"
        "def embed(texts): return [[1.0] + [0.0] * 1535 for _ in texts]",
        6: "assert 0.99 < found[0].score < 1.01",
        7: f"{POOL}\nfrom milepost.store.postgres import PostgresStore",
        8: "store.stop_ttl_sweeper()\npool.close()\nconnection.close()\n"
        "import redis\nclient = redis.Redis.from_url(REDIS_URI)",
        9: "assert store.search(()) == []\nclient.close()\n"
        "connection = sqlite3.connect('sealed.db')\nkey = b'k' * 16",
        10: "store.put(namespace, 'x', {'kind': 'note'})\n"
        "assert store.search(namespace, filter={'kind': 'note'})\nconnection.close()",
    },
}
"""What a reader of each page has at hand, by the number of the block that it stands before."""


def blocks(page: Path) -> list[str]:
    text = page.read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_every_page_with_python_is_run():
    with_python = {page.name for page in PAGES if blocks(page)}
    # That one is about a project of several files: see tests/testing/test_custom_saver.py.
    assert with_python == {*SETTINGS, "custom-saver.md"}


@pytest.mark.parametrize("page", SETTINGS)
def test_the_blocks_of_a_page_run_as_they_stand(
    page: str, tmp_path: Path, uri: str, redis_url: str
) -> None:
    settings = SETTINGS[page]
    program = [f"DB_URI, REDIS_URI = {uri!r}, {redis_url!r}"]
    for number, block in enumerate([*blocks(DOCS / page), ""]):
        program += [settings.get(number, ""), block]
    tmp_path.joinpath("page.txt").write_text("\f".join(program), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNNER], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stderr, done.returncode) == ("", 0)


def resolved(name: str) -> Any:
    """What a dotted name stands for: a module, or something in one."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(resolved(module), attribute)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    loggers, in_traces = (
        {value for value in vars(module).values() if isinstance(value, str)}
        for module in (milepost._internal.log, milepost.integrations._otel.names)
    )
    for name in set(re.findall(r"`(milepost(?:\.\w+)+)`", text)) - loggers - in_traces:
        resolved(name)
    for name in re.findall(r"\b[A-Z][A-Za-z]+Error\b", text):
        homes = (milepost.errors, builtins)
        assert any(hasattr(home, name) for home in homes) or name == "RemoteError", name
