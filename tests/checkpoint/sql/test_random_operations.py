"""Whatever is done to threads, by however many savers on one database, reads as if each checkpoint
were stored whole.

What a saver remembers of a thread is out of date as soon as another one has written to it. So two
of them, of one colour or both, do random things in turn to the same few threads, and a saver that
stores every checkpoint whole does the same. In the end all must have the same.

    MILEPOST_LONG=1 python -m pytest tests/checkpoint/sql/test_random_operations.py
"""

from __future__ import annotations

import os
import random
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from typing import Any, NamedTuple

import pytest
from random_changes import Changes, compiled

from graphs import thread
from harness import AsyncHarness, SyncHarness
from milepost._db.dialect import Bounds
from milepost.checkpoint._contract.records import place_of
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.constants import ANSWERS, CHILDREN, INTERRUPT, RESUME
from milepost.types import Command
from savers import SharingSaver, WholeSaver

LONG = bool(os.environ.get("MILEPOST_LONG"))
MOVES = 40 if LONG else 15
SHORT_CHAINS = Bounds(3, 2, 3)
"""A chain comes to its end after a few versions instead of hundreds."""


# -- what is done


class Move(NamedTuple):
    """One operation, with all that is random in it."""

    name: str
    thread: str
    given: dict[str, Any]
    at: int
    """Which checkpoint of the thread it starts from, the latest first."""
    node: str
    durability: str
    keep: int
    new: str
    """A thread that is not there yet."""
    run: str
    meanwhile: str | None


class Side:
    """A saver, its colour, and a graph that uses it."""

    def __init__(self, saver: Any, changes: Changes, run: Any = None) -> None:
        self.saver = saver
        self.graph = compiled(saver, changes)
        self.run = run or SyncHarness()

    def invoke(self, given: Any, config: Any, move: Move) -> Any:
        config = {**config, "run_id": move.run}
        found = self.run.invoke(self.graph, given, config, durability=move.durability)
        return {key: value for key, value in found.items() if key != INTERRUPT}

    def look(self, thread_id: str) -> Any:
        found = self.run.history(self.graph, thread(thread_id))
        return [(state.values, state.next, state.metadata["step"]) for state in found]

    def look_back(self, config: Any) -> Any:
        state = self.run.get_state(self.graph, config)
        return state.values, state.next

    def update(self, config: Any, values: Any, as_node: str | None) -> None:
        if values is not None:
            # In a saver with the five methods only, an update stores delta channels whole, so that
            # a prune keeps other checkpoints there.
            values = {key: value for key, value in values.items() if key != "delta"}
        self.run.update_state(self.graph, config, values, as_node=as_node)

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self.run.saver(self.saver, method, *arguments, **options)

    def put_again(self, move: Move, past: Any) -> None:
        """A checkpoint once more, with another value: what stands on it is to stay."""
        found = self.ask("get_tuple", past)
        if found is not None:
            self._put(found.checkpoint, found.parent_config or _first(past), found.metadata, move)

    def put_after(self, move: Move, past: Any) -> None:
        """A checkpoint by hand: the latest of all, or right after another one."""
        found = self.ask("get_tuple", past)
        if found is not None:
            id = (
                empty_checkpoint()["id"] if move.keep % 2 else f"{found.checkpoint['id']}{move.run}"
            )
            new = {**found.checkpoint, "id": id}
            self._put(new, past, {"source": "update", "step": 7}, move)

    def _put(self, checkpoint: Any, parent: Any, metadata: Any, move: Move) -> None:
        values = {**checkpoint["channel_values"], "text": move.given["text"]}
        version = self.saver.get_next_version(max(checkpoint["channel_versions"].values()), None)
        versions = {**checkpoint["channel_versions"], "text": version}
        put = {**checkpoint, "channel_values": values, "channel_versions": versions}
        self.ask("put", parent, put, metadata, {"text": version})

    def put_writes(self, move: Move, past: Any) -> None:
        if self.ask("get_tuple", past) is not None:
            writes = list(move.given.items())
            self.ask("put_writes", past, writes, f"by:hand{move.keep}", f"~{move.keep}")


def _first(config: Any) -> Any:
    return {"configurable": {**config["configurable"], "checkpoint_id": None}}


def _resume(side: Side, move: Move, past: Any) -> Any:
    state = side.run.get_state(side.graph, thread(move.thread))
    answer = Command(resume="yes") if state.interrupts else None
    return side.invoke(answer, thread(move.thread), move) if answer else state.values


OPERATIONS: dict[str, tuple[float, Any]] = {
    "input": (6, lambda side, m, past: side.invoke(m.given, thread(m.thread), m)),
    "resume": (2, _resume),
    "replay": (3, lambda side, m, past: side.invoke(None, past, m)),
    "fork": (1, lambda side, m, past: side.invoke(m.given, past, m)),
    "update": (4, lambda side, m, past: side.update(past, m.given, m.node)),
    "copy": (1, lambda side, m, past: side.update(past, None, "__copy__")),
    "look": (2, lambda side, m, past: side.look(m.thread)),
    "look back": (3, lambda side, m, past: side.look_back(past)),
    "clone": (0.5, lambda side, m, past: side.ask("copy_thread", m.thread, m.new)),
    "prune": (0.7, lambda side, m, past: side.ask("prune", [m.thread], keep=m.keep)),
    "delete": (0.3, lambda side, m, past: side.ask("delete_thread", m.thread)),
    "delete run": (0.5, lambda side, m, past: side.ask("delete_for_runs", [m.run])),
    "put again": (1, Side.put_again),
    "put after": (1, Side.put_after),
    "put writes": (1, Side.put_writes),
}
SILENT = ("prune", "delete run")
"""Operations whose result is no part of what all savers have in common."""
MEANWHILE = ("look", "prune", "clone")
"""What another saver may do to a thread on which a run is at work."""


def drawn(rng: random.Random, changes: Changes, threads: list[str]) -> Move:
    names = list(OPERATIONS)
    if changes.seed % 4 == 1:
        names = ["input", "update", "look"]  # what branches and chains are made of
    [name] = rng.choices(names, [OPERATIONS[name][0] for name in names])
    durability = rng.choice(["sync", "sync", "async", "exit"])
    return Move(
        name,
        rng.choice(threads),
        {"text": "", **changes.of("given")},
        rng.randrange(8) if rng.random() < 0.8 else rng.randrange(100),
        rng.choice(["start", "left", "end"]),
        durability,
        rng.randrange(1, 6),
        f"t{len(threads)}",
        f"run {rng.randrange(40)}",
        rng.choice(MEANWHILE) if durability == "sync" and rng.random() < 0.2 else None,
    )


# -- what is compared


WITH_IDS = (ANSWERS, CHILDREN, INTERRUPT, RESUME)
"""Of writes, those that have ids in them."""


def shown(side: Side, thread_id: str) -> list[Any]:
    """A thread as its savers show it, without ids and times."""
    states = [
        (
            state.values,
            state.next,
            state.metadata["step"],
            [(task.name, task.result, len(task.interrupts)) for task in state.tasks],
        )
        for state in side.run.history(side.graph, thread(thread_id))
    ]
    found = side.ask("list", thread(thread_id))
    places = [place_of(one.config) for one in found]
    stored = [
        (
            one.config["configurable"]["checkpoint_ns"].partition(":")[0],
            {**one.checkpoint["channel_values"], "delta": None},  # sometimes it is stored whole
            one.metadata["source"],
            one.parent_config is not None and place_of(one.parent_config) in places,
            [(key, value) for _, key, value in one.pending_writes if key not in WITH_IDS],
        )
        for one in found
    ]
    return [*states, *stored]


CLASSES: dict[str, Any] = {
    "sqlite": (SqliteSaver, AsyncSqliteSaver),
    "postgres": (PostgresSaver, AsyncPostgresSaver),
    "redis": (RedisSaver, AsyncRedisSaver),
}


class Savers:
    """Opens savers of one kind, as many as are wanted, all on one database."""

    def __init__(self, kind: str, place: str, stack: ExitStack) -> None:
        self.kind = kind
        self.place = place
        self.memory = InMemorySaver()
        self.stack = stack
        self.runs = {"sync": SyncHarness(), "async": AsyncHarness()}
        stack.callback(self.runs["async"].close)

    def open(self, changes: Changes, colour: str = "sync") -> Side:
        run = self.runs[colour]
        if self.kind == "memory":
            return Side(self.memory, changes, run)
        serde = None
        if "sealed" in self.kind:
            serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32)
        sync, aio = CLASSES[self.kind.partition(" ")[0]]
        if isinstance(run, SyncHarness):
            saver = self.stack.enter_context(sync.from_conn_string(self.place, serde=serde))
        else:
            inside = AsyncExitStack()
            opening = inside.enter_async_context(aio.from_conn_string(self.place, serde=serde))
            saver = run._runner.run(opening)
            self.stack.callback(lambda: run._runner.run(inside.aclose()))
        if changes.seed % 3:
            saver._preparer._chain = SHORT_CHAINS
        return Side(saver, changes, run)


KINDS = {
    "memory": ("sync", "async"),
    "sqlite": ("sync", "sync"),
    "sqlite sealed": ("sync", "sync"),
    "sqlite colours": ("sync", "async"),
    "postgres": ("sync", "sync"),
    "postgres colours": ("sync", "async"),
    "redis colours": ("sync", "async"),
    "redis sealed": ("sync", "sync"),
}
"""Kinds of savers, and the colours of those that share a database."""


class Campaign:
    """The operations of one seed, by savers of one kind and by one that stores all whole."""

    def __init__(self, savers: Savers, seed: int) -> None:
        self.savers = savers
        self.rng = random.Random(seed)
        self.changes = Changes(seed)
        # In memory the value of a delta channel that a replay or a copy stores whole is the
        # original's too, so that a prune keeps fewer checkpoints for the original.
        whole = SharingSaver() if savers.kind == "memory" else WholeSaver()
        self.whole = Side(whole, self.changes)
        self.ours = [savers.open(self.changes, colour) for colour in KINDS[savers.kind]]
        self.observer = savers.open(self.changes)
        """Tells what is there without the memory of those who act."""
        self.threads = ["t0"]
        self.trail: list[Any] = []

    def go_on(self, number: int) -> None:
        """Do one operation on both sides: what comes of it must be the same."""
        rng, changes = self.rng, self.changes
        changes.begin(number)
        move = drawn(rng, changes, self.threads)
        if "clone" in (move.name, move.meanwhile):
            self.threads.append(move.new)
        who = rng.randrange(len(self.ours))
        if rng.random() < 0.05:
            self.ours[who] = self.savers.open(changes, KINDS[self.savers.kind][who])
        self.trail.append((who, move._replace(given={})))
        expected = self._done(number, move, self.whole, self.whole)
        found = self._done(number, move, self.ours[who], self.observer)
        assert found == expected, self.trail

    def _done(self, number: int, move: Move, side: Side, observer: Side) -> Any:
        past = [found.config for found in observer.ask("list", _root(move.thread))]
        at = past[move.at % len(past)] if past else thread(move.thread)
        meanwhile = None
        if move.meanwhile is not None:
            meanwhile = partial(OPERATIONS[move.meanwhile][1], observer, move, at)
        self.changes.begin(number, meanwhile)
        try:
            found = OPERATIONS[move.name][1](side, move, at)
        except Exception as error:
            return type(error)
        return None if move.name in SILENT else found

    def check(self) -> None:
        """All savers have the same, a new one too, and nothing is wrong with the rows."""
        new = self.savers.open(self.changes)
        for thread_id in self.threads:
            expected = shown(self.whole, thread_id)
            for side in (*self.ours, new):
                assert shown(side, thread_id) == expected, self.trail
        problems = [] if self.savers.kind == "memory" else new.ask("verify")
        if any(move.name == "put again" for _, move in self.trail):
            problems = [one for one in problems if one.reason != LEFT_BEHIND]
        assert not problems, self.trail


LEFT_BEHIND = "nothing refers to it"
"""The versions that a checkpoint had before it was put again stay until the next prune."""


def _root(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


SEEDS = {kind: 100 if LONG else 1 if "sealed" in kind else 2 for kind in KINDS}
"""How many: sealing takes most of the time where it is done."""


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind in KINDS for seed in range(SEEDS[kind])]
)
def test_all_savers_of_a_database_have_what_was_stored(kind, seed, request):
    place = ""
    if "sqlite" in kind:
        place = request.getfixturevalue("path")
    elif "postgres" in kind:
        place = request.getfixturevalue("uri")
        with PostgresSaver.from_conn_string(place) as saver:
            saver.setup()
    elif "redis" in kind:
        server = request.getfixturevalue("redis_server")
        server.client().flushall()
        place = server.url
    with ExitStack() as stack:
        campaign = Campaign(Savers(kind, place, stack), seed)
        for number in range(MOVES):
            campaign.go_on(number)
        campaign.check()
