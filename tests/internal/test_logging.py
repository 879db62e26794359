"""What milepost logs: a line for each thing that an operator asks about, and never a value."""

import ast
import asyncio
import logging
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from canary import CONFIG, KEY, LARGE, Lines, Told, Trouble, unlike
from database_trouble import (
    DATABASE_TROUBLE,
    connections_of_a_saver_are_ended,
    connections_of_a_store_are_ended,
    no_server_is_at_an_address,
)
from quiet_trouble import QUIET_TROUBLE

import milepost
from graphs import Log, elsewhere, line
from milepost._engine import leases
from milepost._engine.drivers import at_exit
from milepost._internal import fork_guard, log
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint._redis.thread_io import Changed
from milepost.checkpoint._sql.threads import lock
from milepost.checkpoint._sql.write.tables import TransactionRows
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.redis import RedisSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.event_hooks import (
    SerdeEvent,
    emit_serde_event,
    register_serde_event_listener,
)
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import SaverError, ThreadConflict
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.store.sqlite import SqliteStore
from milepost.stream import StreamTransformer
from milepost.types import RetryPolicy
from savers import first_step

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logging.md"
RUN, THREADS, STORE = "milepost.run", "milepost.threads", "milepost.store"
STORAGE = "milepost.storage"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    logger, handler = logging.getLogger("milepost"), Lines()
    handler.spy_on(monkeypatch)
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
        self.path = str(tmp_path / "canary.db")
        self.lines = lines
        self.serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY)
        self.opened = ExitStack()

    def sqlite(self) -> Any:
        """A saver that seals what it stores."""
        return SqliteSaver(self.sqlite_connection(), serde=self.serde)

    def sqlite_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
        self.opened.callback(connection.close)
        return connection

    def saver(self, place: str) -> Any:
        """A saver in one of the places."""
        if place == "memory":
            return InMemorySaver(serde=self.serde)
        if place == "sqlite":
            return self.sqlite()
        if place == "postgres":
            opening: Any = PostgresSaver.from_conn_string(self.asks_for("uri"), serde=self.serde)
        else:
            opening = RedisSaver.from_conn_string(self.asks_for("redis_url"), serde=self.serde)
        saver = self.opened.enter_context(opening)
        saver.setup()
        return saver

    def run(self, graph: Any, **options: Any) -> Any:
        return graph.invoke({"log": LARGE}, CONFIG, durability="sync", **options)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, lines: Lines) -> Iterator[Stage]:
    made = Stage(request, tmp_path, lines)
    with made.opened:
        yield made


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


def a_task_is_retried_in_a_run_without_a_thread(stage: Stage) -> None:
    attempts: list[str] = []
    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Trouble)

    @task(retry_policy=policy)
    def work(value: str) -> str:
        attempts.append(value)
        if len(attempts) < 2:
            raise Trouble
        return value

    @entrypoint()
    def flow(value: str) -> str:
        return work(value).result()

    flow.invoke("canary-value")


def an_error_handler_runs(stage: Stage) -> None:
    def node(state: Log) -> Any:
        raise Trouble

    builder = StateGraph(Log).add_node("node", node, error_handler=lambda state: {"log": LARGE})
    stage.run(builder.add_edge(START, "node").compile(checkpointer=stage.sqlite()))


def an_error_handler_is_retried(stage: Stage) -> None:
    attempts: list[int] = []

    def node(state: Log) -> Any:
        raise Trouble

    def handler(state: Log) -> Any:
        attempts.append(1)
        if len(attempts) < 2:
            raise Trouble
        return {"log": LARGE}

    builder = StateGraph(Log).add_node("node", node, error_handler=handler, retry_policy=())
    builder.set_node_defaults(retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
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


def a_lease_is_over(stage: Stage, saver: Any = None) -> None:
    saver = saver or stage.sqlite()
    rival = line("rival").compile(checkpointer=saver, on_conflict="reject")

    def node(state: Log) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lock, "is_alive", lambda status, updated_at: False)
            elsewhere(lambda: stage.run(rival))
        return {"log": LARGE}

    with pytest.raises(ThreadConflict):
        stage.run(with_node(node, saver))


def renewed(times: int) -> None:
    """Renew all claims, in this thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases.threads, "submit", lambda job: job())
        for _ in range(times):
            leases.renew()


def a_lease_is_lost(stage: Stage) -> None:
    saver = stage.sqlite()

    def node(state: Log) -> Any:
        elsewhere(lambda: stage.run(line("rival").compile(checkpointer=saver)))
        renewed(times=3)
        return {"log": LARGE}

    stage.patch.setattr(leases, "_renewer", threading.current_thread())  # which renews nothing
    with pytest.raises(ThreadConflict):
        stage.run(with_node(node, saver, on_conflict="reject"))


def a_lease_is_not_renewed(stage: Stage) -> None:
    saver = stage.sqlite()

    def fail(*_: Any) -> None:
        raise Trouble

    def node(state: Log) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(saver, "hold", fail)
            renewed(times=1)
        return {"log": LARGE}

    stage.patch.setattr(leases, "_renewer", threading.current_thread())
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


def a_listener_fails(stage: Stage) -> None:
    def listener(_: SerdeEvent) -> None:
        raise Trouble

    end = register_serde_event_listener(listener)
    emit_serde_event({"kind": "msgpack_blocked", "module": "m", "name": "n"})
    end()


def items_are_not_embedded(stage: Stage) -> None:
    fails = False

    def embed(texts: list[str]) -> list[list[float]]:
        if fails and "canary-query" not in texts:
            raise Trouble
        return [[1.0, 0.5] for _ in texts]

    store = SqliteStore(
        stage.sqlite_connection(),
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


def a_stream_is_left_open_at_exit(stage: Stage) -> None:
    def stream() -> Iterator[None]:
        try:
            yield
        finally:
            raise Trouble

    left = stream()
    next(left)
    stage.patch.setattr(at_exit, "_streams", {left: None})
    stage.patch.setattr(at_exit.threads, "start_no_more", lambda: None)
    at_exit._end_all()


def a_fork_is_not_renewed(stage: Stage) -> None:
    class Left:
        def renew(self) -> None:
            raise Trouble

    left = Left()
    stage.patch.setattr(fork_guard, "_renewed", {left})
    stage.patch.setattr(fork_guard, "_held_at_fork", ())
    stage.patch.setattr(fork_guard, "_fresh_in_child", ())
    fork_guard._in_child()


def scheduled_work_fails(stage: Stage) -> None:
    """In a transformer of a run's events."""
    scheduled: list[Any] = []

    class Careless(StreamTransformer):
        def init(self) -> dict[str, Any]:
            return {}

        async def aprocess(self, event: Any) -> bool:
            if not scheduled:
                scheduled.append(self.schedule(self.work()))
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


TAKEN_OVER = (THREADS, "INFO", "Thread 't': a run has taken it over from one that had not ended.")
REFUSED = (
    THREADS,
    "WARNING",
    "Thread 't' was taken by another run: a commit of a run that loaded it before was refused.",
)
LEASE_OVER = (THREADS, "INFO", "Thread 't': a run has taken it over from one whose lease is over.")

TROUBLE: dict[Callable[..., None], list[Told]] = {
    a_node_is_retried: [
        (
            RUN,
            "INFO",
            f"Node 'node' of thread 't' has failed with Trouble in attempt {attempt}; the next one "
            "is in 0.0 s.",
        )
        for attempt in (1, 2)
    ],
    a_task_is_retried_in_a_run_without_a_thread: [
        (
            RUN,
            "INFO",
            "Task 'work' of a run without a thread has failed with Trouble in attempt 1; the next "
            "one is in 0.0 s.",
        )
    ],
    an_error_handler_runs: [
        (
            RUN,
            "INFO",
            "Node 'node' of thread 't' has failed with Trouble; its error handler runs.",
        )
    ],
    an_error_handler_is_retried: [
        (
            RUN,
            "INFO",
            "Node 'node' of thread 't' has failed with Trouble; its error handler runs.",
        ),
        (
            RUN,
            "INFO",
            "The error handler of node 'node' of thread 't' has failed with Trouble in attempt 1; "
            "the next one is in 0.0 s.",
        ),
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
    a_run_takes_the_thread_of_another: [TAKEN_OVER, REFUSED],
    a_run_is_refused: [(THREADS, "INFO", "Thread 't': a run was refused; another has it.")],
    a_lease_is_over: [LEASE_OVER, REFUSED],
    a_lease_is_lost: [
        TAKEN_OVER,
        (
            THREADS,
            "WARNING",
            "Thread 't': another run has taken the lease; this run's next commit fails.",
        ),
        REFUSED,
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
    **DATABASE_TROUBLE,
}
"""Trouble, and all lines that it leaves, each as often as it is there."""

ON_POSTGRES = (connections_of_a_saver_are_ended, connections_of_a_store_are_ended)
ERRORS_OF_OTHERS = (connections_of_a_store_are_ended, no_server_is_at_an_address)
"""Trouble in which the texts of exceptions are not ours; the same lines have other trouble."""


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(one, marks=pytest.mark.postgres) if one in ON_POSTGRES else one
        for one in TROUBLE
    ],
    ids=lambda trouble: trouble.__name__,
)
def test_trouble_is_logged_once_with_its_place_and_without_values(trouble, stage, lines):
    trouble(stage)
    assert unlike(lines.told(), TROUBLE[trouble]) == ([], [])
    assert lines.leaks() == []
    assert trouble in ERRORS_OF_OTHERS or lines.blind() == []


def test_a_line_with_the_text_of_an_exception_leaks(lines):
    """A handler formats the exceptions of a record, and those that led to them."""
    try:
        try:
            raise Trouble
        except Trouble as error:
            raise RuntimeError from error
    except RuntimeError as error:
        logger = logging.getLogger("milepost.run")
        logger.warning("a line")
        assert lines.leaks() == []
        logger.warning("a line", exc_info=True)
        logger.warning("a line: %r", error.__cause__)
        logger.warning("a line", extra={"error": error.__cause__})
    assert len(lines.leaks()) == 3


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
    ours = [lines for trouble, lines in TROUBLE.items() if trouble not in ERRORS_OF_OTHERS]
    expected = [told for lines in ours for told in lines]
    found = list(lines_in_the_source())
    assert found
    for name, level, text in found:
        pattern = re.escape(text).replace("…", ".+")
        told = [one for *where, one in expected if where == [name, level]]
        assert [one for one in told if re.fullmatch(pattern, one)], text


PLACES = ["memory", "sqlite", "postgres", "redis"]
CONFLICTS = [a_run_takes_the_thread_of_another, a_run_is_refused]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("trouble", CONFLICTS)
def test_conflicts_are_logged_alike_for_every_saver(trouble, place, stage, lines):
    trouble(stage, stage.saver(place))
    assert unlike(lines.told(), TROUBLE[trouble]) == ([], [])


def repeated_once(work: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """An operation whose transaction is not committed the first time, for each set of steps."""
    begun: list[Any] = []

    def attempt(*given: Any) -> Any:
        outcome = yield from work(*given)
        if not any(one is given[-1] for one in begun):
            begun.append(given[-1])
            raise error
        return outcome

    return attempt


@pytest.mark.parametrize("place", ["postgres", "redis"])
@pytest.mark.parametrize("trouble", [a_run_takes_the_thread_of_another, a_lease_is_over])
def test_a_transaction_that_is_repeated_is_logged_once(trouble, place, stage, lines):
    again: Any = Changed()
    if place == "postgres":
        again = pytest.importorskip("psycopg").errors.SerializationFailure()
    saver = stage.saver(place)
    stage.patch.setattr(saver._storer, "steps", repeated_once(saver._storer.steps, again))
    stage.patch.setattr(lock, "hold", repeated_once(lock.hold, again))
    trouble(stage, saver)
    told = [one for one in lines.told() if one[0] == THREADS]
    assert unlike(told, TROUBLE[trouble]) == ([], [])


@pytest.mark.parametrize("place", PLACES)
def test_a_thread_that_is_not_taken_after_all_is_not_logged(place, stage, lines):
    saver = stage.saver(place)
    late: Any = (saver, "_check_fence") if place == "memory" else (TransactionRows, "add")
    last_check = getattr(*late)

    def fail(*given: Any) -> Any:
        last_check(*given)
        if any(getattr(one, "fence", None) and one.fence.overtakes for one in given):
            raise Trouble

    def node(state: Log) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*late, fail)
            with pytest.raises(SaverError):
                elsewhere(lambda: stage.run(line("rival").compile(checkpointer=saver)))
        return {"log": LARGE}

    stage.run(with_node(node, saver))
    assert [told for told in lines.told() if told[0] == THREADS] == []


def test_a_run_that_stores_again_after_a_refusal_is_logged_once(stage, lines):
    saver = stage.sqlite()
    fence = Fence(None)
    assert saver.commit([saver.prepare(first_step(saver, "t", fence=Fence(None)))]) == [None]
    for _ in range(2):
        steps = [saver.prepare(first_step(saver, "t", fence=fence)) for _ in range(2)]
        assert [type(error) for error in saver.commit(steps)] == [ThreadConflict] * 2
    assert lines.notable() == [
        "Thread 't' has moved on: a commit of a run that loaded it before was refused."
    ]


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
