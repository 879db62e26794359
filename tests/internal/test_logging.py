"""What milepost logs: a line for each thing that an operator asks about, and never a value."""

import ast
import asyncio
import logging
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from quiet_trouble import QUIET_TROUBLE

import milepost
from graphs import Log, elsewhere, line, until
from milepost._db import group_commit
from milepost._db.sweeper import Sweeper
from milepost._engine import leases
from milepost._engine.drivers import at_exit
from milepost._internal import fork_guard, log
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.event_hooks import (
    SerdeEvent,
    emit_serde_event,
    register_serde_event_listener,
)
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import SaverError, ThreadConflict
from milepost.graph import START, StateGraph
from milepost.store.sqlite import SqliteStore
from milepost.stream import StreamTransformer
from milepost.types import RetryPolicy

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logging.md"
CANARY = "canary"
"""Part of every value, key, password and error text here, and of no name."""
KEY = b"canary-key-16byt"
CONFIG: Any = {
    "configurable": {"thread_id": "t", "api_key": "canary-config"},
    "metadata": {"owner": "canary-metadata"},
    "tags": ["canary-tag"],
}
LARGE = ["canary-value" * 20]
"""Too large for a checkpoint's own row."""


class Trouble(Exception):
    def __init__(self) -> None:
        super().__init__("canary-error")


class Lines(logging.Handler):
    """Collects records of every level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def have(self, message: str) -> bool:
        return any(message in record.getMessage() for record in self.records)

    def notable(self) -> list[str]:
        return [r.getMessage() for r in self.records if r.levelno >= logging.INFO]


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger, handler = logging.getLogger("milepost"), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


class Stage:
    """What trouble is made with."""

    def __init__(self, request: pytest.FixtureRequest, tmp_path: Path, lines: Lines) -> None:
        self.patch = request.getfixturevalue("monkeypatch")
        self.asks_for = request.getfixturevalue
        self.path = str(tmp_path / "threads.db")
        self.lines = lines
        self.serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY)

    def sqlite(self) -> Any:
        """A saver that seals what it stores."""
        return SqliteSaver(
            sqlite3.connect(self.path, check_same_thread=False, isolation_level=None),
            serde=self.serde,
        )

    def run(self, graph: Any, **options: Any) -> Any:
        return graph.invoke({"log": LARGE}, CONFIG, durability="sync", **options)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, lines: Lines) -> Stage:
    return Stage(request, tmp_path, lines)


def with_node(node: Callable[[Log], Any], saver: Any, **options: Any) -> Any:
    """START -> first -> node, so that something is stored before `node` runs."""
    builder = line("first").add_node("node", node).add_edge("first", "node")
    return builder.compile(checkpointer=saver, **options)


# -- each of these makes one kind of trouble


def a_node_is_retried(stage: Stage) -> None:
    attempts: list[Log] = []

    def node(state: Log) -> Any:
        attempts.append(state)
        if len(attempts) < 3:
            raise Trouble
        return {"log": LARGE}

    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Trouble)
    builder = StateGraph(Log).add_node("node", node, retry_policy=policy).add_edge(START, "node")
    stage.run(builder.compile(checkpointer=stage.sqlite()))


def an_error_handler_runs(stage: Stage) -> None:
    def node(state: Log) -> Any:
        raise Trouble

    builder = StateGraph(Log).add_node("node", node, error_handler=lambda state: {"log": LARGE})
    stage.run(builder.add_edge(START, "node").compile(checkpointer=stage.sqlite()))


def a_run_takes_the_thread_of_another(stage: Stage, saver: Any = None) -> None:
    saver = saver or stage.sqlite()

    def node(state: Log) -> Any:
        elsewhere(lambda: stage.run(line("rival").compile(checkpointer=saver)))
        return {"log": LARGE}

    with pytest.raises(ThreadConflict):
        stage.run(with_node(node, saver))


def a_run_is_refused(stage: Stage, saver: Any = None) -> None:
    saver = saver or stage.sqlite()
    rival = line("rival").compile(checkpointer=saver, on_conflict="reject")

    def node(state: Log) -> Any:
        with pytest.raises(ThreadConflict):
            elsewhere(lambda: stage.run(rival))
        return {"log": LARGE}

    stage.run(with_node(node, saver))


def a_lease_is_over(stage: Stage) -> None:
    saver = stage.sqlite()
    rival = line("rival").compile(checkpointer=saver, on_conflict="reject")

    def node(state: Log) -> Any:
        saver.conn.execute("UPDATE threads SET updated_at = updated_at - 3600")
        elsewhere(lambda: stage.run(rival))
        return {"log": LARGE}

    with pytest.raises(ThreadConflict):
        stage.run(with_node(node, saver))


def a_lease_is_lost(stage: Stage) -> None:
    saver = stage.sqlite()

    def node(state: Log) -> Any:
        elsewhere(lambda: stage.run(line("rival").compile(checkpointer=saver)))
        leases.renew()
        until(lambda: stage.lines.have("has taken the lease"), "the renewal says nothing")
        return {"log": LARGE}

    with pytest.raises(ThreadConflict):
        stage.run(with_node(node, saver, on_conflict="reject"))


def a_lease_is_not_renewed(stage: Stage) -> None:
    saver = stage.sqlite()

    def fail(*_: Any) -> None:
        raise Trouble

    def node(state: Log) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(saver, "hold", fail)
            leases.renew()
            until(lambda: stage.lines.have("was not renewed"), "the renewal says nothing")
        return {"log": LARGE}

    stage.run(with_node(node, saver, on_conflict="reject"))


def a_thread_is_not_released(stage: Stage) -> None:
    saver = stage.sqlite()

    def fail(*_: Any) -> None:
        raise Trouble

    def node(state: Log) -> Any:
        stage.patch.setattr(saver, "release", fail)
        stage.patch.setattr(saver, "commit", fail)
        return {"log": LARGE}

    with pytest.raises(SaverError):
        stage.run(with_node(node, saver))


def a_cache_is_lost(stage: Stage) -> None:
    with SqliteSaver.from_conn_string(stage.path) as saver:

        def node(state: Log) -> Any:
            saver._cache.forget("t")
            return {"log": LARGE}

        stage.run(with_node(node, saver))


def a_commit_is_slow(stage: Stage) -> None:
    stage.patch.setattr(group_commit, "SLOW", -1.0)
    stage.run(line("a").compile(checkpointer=stage.sqlite()))


def a_sweep_fails(stage: Stage) -> None:
    swept: list[None] = []

    def sweep() -> None:
        if swept:
            raise Trouble
        swept.append(None)

    with pytest.raises(Trouble):
        Sweeper(sweep).start(0.001).result(30)


def a_listener_fails(stage: Stage) -> None:
    def listener(_: SerdeEvent) -> None:
        raise Trouble

    end = register_serde_event_listener(listener)
    emit_serde_event({"kind": "msgpack_blocked", "module": "m", "name": "n"})
    end()


def connections_are_ended(stage: Stage) -> None:
    psycopg = pytest.importorskip("psycopg")
    uri = stage.asks_for("uri")
    separator = "&" if "?" in uri else "?"

    def end_all() -> None:
        with psycopg.connect(uri, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )

    def node(state: Log) -> Any:
        end_all()
        return {"log": LARGE}

    secret = f"{uri}{separator}password=canary-password"
    with PostgresSaver.from_conn_string(secret, serde=stage.serde) as saver:
        saver.setup()
        stage.run(with_node(node, saver))
        end_all()
        # No new connection can be made any more, so that it is given up.
        stage.patch.setattr("milepost._db.postgres.engine.RESTART", 0.05)

        def refuse() -> Any:
            raise psycopg.OperationalError("canary-error")

        stage.patch.setattr(saver.engine, "_reconnect", refuse)
        with pytest.raises(SaverError):
            saver.get_tuple(CONFIG)


def items_are_not_embedded(stage: Stage) -> None:
    fails = False

    def embed(texts: list[str]) -> list[list[float]]:
        if fails and "canary-query" not in texts:
            raise Trouble
        return [[1.0, 0.5] for _ in texts]

    store = SqliteStore(
        sqlite3.connect(stage.path, isolation_level=None),
        index={"dims": 2, "embed": embed},
        serde=stage.serde,
    )
    store.setup()
    store.put(("ns",), "damaged", {"text": "canary-value"})
    store.put(("ns",), "whole", {"text": "canary-value"})
    fails = True
    store.conn.execute("UPDATE milepost_items SET indexed = -1")
    store.conn.execute("UPDATE milepost_items SET data = x'00' WHERE key = 'damaged'")
    assert store.search(("ns",), query="canary-query") == []


def a_file_is_closed_with_free_pages(stage: Stage) -> None:
    with SqliteSaver.from_conn_string(stage.path) as saver:
        stage.run(line("a").compile(checkpointer=saver))
        saver.conn.execute("BEGIN")
        saver.conn.close()


def a_stream_is_left_open_at_exit(stage: Stage) -> None:
    at_exit._tell(Trouble())


def a_fork_is_not_renewed(stage: Stage) -> None:
    class Left:
        def renew(self) -> None:
            raise Trouble

    left = Left()
    stage.patch.setattr(fork_guard, "_renewed", {left})
    stage.patch.setattr(fork_guard, "_held_at_fork", ())
    stage.patch.setattr(fork_guard, "_fresh_in_child", ())
    fork_guard._in_child()


THREADS, STORAGE, STORE = "milepost.threads", "milepost.storage", "milepost.store"


def scheduled_work_fails(stage: Stage) -> None:
    """In a transformer of a run's events."""

    class Careless(StreamTransformer):
        def init(self) -> dict[str, Any]:
            return {}

        async def aprocess(self, event: Any) -> bool:
            self.schedule(self.work())
            return True

        async def work(self) -> None:
            raise Trouble

    async def run() -> None:
        builder = StateGraph(dict)
        builder.add_node("a", lambda state: {})
        builder.add_edge(START, "a")
        graph = builder.compile(transformers=[Careless])
        await (await graph.astream_events({"x": 1}, version="v3")).output()

    asyncio.run(run())


TROUBLE: dict[Callable[[Stage], None], list[tuple[str, str, str]]] = {
    a_node_is_retried: [
        (
            "milepost.run",
            "INFO",
            f"Node 'node' has failed with Trouble in attempt {attempt}; the next one is in 0.0 s.",
        )
        for attempt in (1, 2)
    ],
    an_error_handler_runs: [
        ("milepost.run", "INFO", "Node 'node' has failed with Trouble; its error handler runs.")
    ],
    a_stream_is_left_open_at_exit: [
        (
            "milepost.run",
            "WARNING",
            "A stream that was open when the interpreter exited could not be ended, and the last "
            "steps of its run may not be stored: Trouble. Close streams that are left: "
            "stream.close().",
        )
    ],
    a_run_takes_the_thread_of_another: [
        (THREADS, "INFO", "Thread 't': a run has taken it over from one that had not ended."),
        (
            THREADS,
            "WARNING",
            "Thread 't' was taken by another run: a commit of a run that loaded it before was "
            "refused.",
        ),
    ],
    a_run_is_refused: [(THREADS, "INFO", "Thread 't': a run was refused; another has it.")],
    a_lease_is_over: [
        (THREADS, "INFO", "Thread 't': a run has taken it over from one whose lease is over.")
    ],
    a_lease_is_lost: [
        (
            THREADS,
            "WARNING",
            "Thread 't': another run has taken the lease; this run's next commit fails.",
        )
    ],
    a_lease_is_not_renewed: [
        (
            THREADS,
            "WARNING",
            "Thread 't': the lease was not renewed (Trouble); that is tried again in 15 s.",
        )
    ],
    a_thread_is_not_released: [
        (
            THREADS,
            "WARNING",
            "Thread 't' could not be released (Trouble): it shows as running for a minute.",
        )
    ],
    a_cache_is_lost: [
        (
            STORAGE,
            "INFO",
            "Thread 't': channel 'log' is stored whole; its last version is not cached.",
        )
    ],
    scheduled_work_fails: [
        ("milepost.run", "WARNING", "Work that Careless has scheduled has failed: Trouble.")
    ],
    a_commit_is_slow: [(STORAGE, "WARNING", "A commit of 1 steps took 0.? s.")],
    a_sweep_fails: [
        (STORAGE, "DEBUG", "A sweep has ended."),
        (STORAGE, "WARNING", "The sweeper has stopped: a sweep failed with Trouble."),
    ],
    connections_are_ended: [
        (
            STORAGE,
            "WARNING",
            "PostgreSQL: attempt 1 at a transaction has failed with *; again in 0.02 s.",
        ),
        (
            STORAGE,
            "WARNING",
            "PostgreSQL: a transaction has failed for good in attempt *, with OperationalError.",
        ),
    ],
    a_file_is_closed_with_free_pages: [
        (
            STORAGE,
            "DEBUG",
            "SQLite: free pages were not given back at the end (ProgrammingError).",
        )
    ],
    a_listener_fails: [
        (STORAGE, "WARNING", "A listener to serializer events has failed: Trouble.")
    ],
    a_fork_is_not_renewed: [
        (STORAGE, "WARNING", "A Left could not be renewed in a forked process: Trouble.")
    ],
    items_are_not_embedded: [
        (
            STORE,
            "WARNING",
            "Item 'damaged' in ('ns',) lacks its vectors and does not open: *.",
        ),
        (STORE, "WARNING", "Items that lack vectors were not embedded: Trouble."),
    ],
    **QUIET_TROUBLE,
}
"""Trouble, and the lines that it leaves; `*` and `?` where a line is not the same each time."""


def missing(trouble: Any, lines: Lines) -> list[Any]:
    told = [(r.name, r.levelname, r.getMessage()) for r in lines.records]
    return [
        (name, level, text)
        for name, level, text in TROUBLE[trouble]
        if not any(line[:2] == (name, level) and fnmatchcase(line[2], text) for line in told)
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(trouble, marks=pytest.mark.postgres)
        if trouble is connections_are_ended
        else trouble
        for trouble in TROUBLE
    ],
    ids=lambda trouble: trouble.__name__,
)
def test_trouble_is_logged_with_its_place_and_without_values(trouble, stage, lines):
    trouble(stage)
    assert missing(trouble, lines) == [], [r.getMessage() for r in lines.records]
    for record in lines.records:
        shown = logging.Formatter().format(record) + repr(vars(record))
        assert CANARY not in shown
        assert KEY.hex() not in shown


def lines_in_the_source() -> Iterator[tuple[str, str, str]]:
    """Logger, level and message of every call of `log`, with `…` for what differs."""
    for file in sorted(Path(milepost.__file__).parent.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        texts: dict[str, Any] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Assign([ast.Name(name)], ast.Constant(str(text))):
                    texts[name] = text
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    ast.Attribute(ast.Name("log"), level),
                    [ast.Attribute(ast.Name("log"), logger), message, *_],
                ):
                    text = texts[message.id] if isinstance(message, ast.Name) else message.value
                    text = re.sub(r"%[.\d]*[a-z]", "…", text)
                    yield getattr(log, logger), level.upper(), text


def test_the_page_lists_what_the_source_logs():
    row = re.compile(r"^\| `(milepost\.\w+)` \| ([A-Z]+) \| (.*?) \|", re.MULTILINE)
    listed = row.findall(PAGE.read_text("utf-8"))
    assert sorted(listed) == sorted(set(lines_in_the_source()))


def test_there_is_trouble_for_every_line():
    expected = [told for lines in TROUBLE.values() for told in lines]
    found = list(lines_in_the_source())
    assert found
    for name, level, text in found:
        pattern = re.escape(text).replace("…", ".+")
        told = [one for *where, one in expected if where == [name, level]]
        assert [one for one in told if re.fullmatch(pattern, one)], text


@pytest.mark.parametrize("place", ["memory", "sqlite"])
@pytest.mark.parametrize("trouble", [a_run_takes_the_thread_of_another, a_run_is_refused])
def test_conflicts_are_logged_alike_for_every_saver(trouble, place, stage, lines):
    trouble(stage, InMemorySaver() if place == "memory" else stage.sqlite())
    assert missing(trouble, lines) == []


def test_a_run_without_trouble_logs_nothing(run, saver, config, durability, lines):
    graph = line("a", "b").compile(checkpointer=saver)
    for _ in range(3):
        run.invoke(graph, {"log": LARGE}, config, durability=durability)
    graph.update_state(config, {"log": LARGE}, as_node="b")
    assert lines.notable() == []


def test_a_process_that_goes_on_with_a_thread_stores_differences_and_logs_nothing(stage, lines):
    for _ in range(3):
        with SqliteSaver.from_conn_string(stage.path) as saver:
            stage.run(line("a", "b").compile(checkpointer=saver))
    assert lines.notable() == []


def test_the_attempts_of_a_long_outage_are_not_all_logged(lines):
    psycopg = pytest.importorskip("psycopg")
    from milepost._db.postgres.engine import Retries, Settings

    retries = Retries(Settings(None, False), replaceable=True)
    for _ in range(40):
        retries.pause(psycopg.OperationalError("canary"), None)
    attempts = [int(re.search(r"attempt (\d+)", told)[1]) for told in lines.notable()]
    assert attempts == [1, 2, 4, 8, 16, 32]


def test_the_import_of_logging_waits_for_the_first_line():
    program = """
import sys
from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
builder = StateGraph(dict).add_node("node", lambda state: {}).add_edge(START, "node")
builder.compile(checkpointer=InMemorySaver()).invoke({}, {"configurable": {"thread_id": "t"}})
assert "logging" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_library_configures_no_logging():
    """A program decides where lines go: milepost adds no handler and sets no level."""
    program = """
import logging, milepost.graph, milepost.checkpoint.sqlite
from milepost._internal import log
log.debug(log.RUN, "a line")
for name in ("milepost", log.RUN, log.THREADS, log.STORAGE, log.STORE):
    logger = logging.getLogger(name)
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True), name
assert logging.getLogger().handlers == []
"""
    subprocess.run([sys.executable, "-c", program], check=True)
