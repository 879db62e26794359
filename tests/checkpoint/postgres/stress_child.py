"""Does things at random to a few threads of one PostgreSQL database: `uri seed seconds`.

At the end it prints what it did, as one line of JSON. What may happen beside others is counted;
anything else ends it with a traceback.
"""

from __future__ import annotations

import collections
import json
import random
import sys
import time
from typing import Any

from graphs import line, thread
from milepost.checkpoint.postgres import PostgresSaver
from milepost.errors import (
    BrokenChainError,
    CheckpointError,
    CheckpointNotFoundError,
    ThreadConflict,
)

THREADS = [f"t{n}" for n in range(4)]
COPIES = [f"copy{n}" for n in range(3)]
LARGE = "x" * 600


class Worker:
    def __init__(self, saver: PostgresSaver, chance: random.Random) -> None:
        self.saver = saver
        self.chance = chance
        self.graph = line("a", "b", "c").compile(checkpointer=saver)
        self.copies = 0

    def name(self) -> str:
        return self.chance.choice(THREADS)

    def begin(self) -> None:
        durability = self.chance.choice(["sync", "async", "exit"])
        result = self.graph.invoke({"log": [LARGE]}, thread(self.name()), durability=durability)
        assert result["log"][-3:] == ["a", "b", "c"], result

    def fork(self) -> None:
        name = self.name()
        found = list(self.saver.list(thread(name), limit=12))
        if found:
            past = self.chance.choice(found).config
            self.graph.invoke(self.chance.choice([None, {"log": ["f"]}]), past)

    def update(self) -> None:
        self.graph.update_state(thread(self.name()), {"log": ["u"]}, as_node="c")

    def delete(self) -> None:
        self.saver.delete_thread(self.name())

    def erase(self) -> None:
        self.saver.erase([self.name()], vacuum=False)

    def drop(self) -> None:
        self.saver.prune([self.name()], strategy="delete")

    def prune(self) -> None:
        self.saver.prune([self.name()], keep=self.chance.randint(1, 3))

    def sweep(self) -> None:
        self.saver.sweep(ttl=self.chance.choice([0.05, 1.0]))

    def copy(self) -> None:
        target = self.chance.choice(COPIES)
        self.saver.copy_thread(self.name(), target)
        self.read(target)

    def drop_copy(self) -> None:
        self.saver.delete_thread(self.chance.choice(COPIES))

    def move(self) -> None:
        lines = list(self.saver.dump([self.name()]))
        self.saver.load(lines, rename=dict.fromkeys(THREADS, self.chance.choice(COPIES)))

    def describe(self) -> None:
        self.saver.set_thread_metadata(self.name(), {"tags": ["x"]})

    def look(self) -> None:
        self.read(self.name())

    def read(self, name: str) -> None:
        self.graph.get_state(thread(name))

    def verify(self) -> None:
        problems = self.saver.verify()
        assert problems == [], problems


def is_usual(name: str, error: CheckpointError) -> bool:
    """Whether a call may fail like this beside others. That a thread cannot be read is not usual."""
    if name in ("copy", "move"):
        return "exists already" in str(error)
    if name == "describe":
        return isinstance(error, CheckpointNotFoundError)
    if name == "fork" and isinstance(error, (BrokenChainError, CheckpointNotFoundError)):
        return isinstance(error, CheckpointNotFoundError) or "Nothing of this step" in str(error)
    return name in ("begin", "fork", "update") and isinstance(error, ThreadConflict)


def main(uri: str, seed: str, seconds: str) -> None:
    done: collections.Counter[str] = collections.Counter()
    end = time.monotonic() + float(seconds)
    with PostgresSaver.from_conn_string(uri) as saver:
        worker = Worker(saver, random.Random(seed))
        names = [name for name in vars(Worker) if name[0] != "_" and name not in ("name", "read")]
        weights = [
            6 if name in ("begin", "fork") else 0.5 if name == "verify" else 1 for name in names
        ]
        while time.monotonic() < end:
            [name] = worker.chance.choices(names, weights)
            act: Any = getattr(worker, name)
            try:
                act()
            except CheckpointError as error:
                if not is_usual(name, error):
                    raise RuntimeError(f"{name} in seed {seed}") from error
                done[f"{name} {type(error).__name__}"] += 1
            else:
                done[name] += 1
    print(json.dumps(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
