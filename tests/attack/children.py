"""Operations that need a process of their own: what they compare would change other threads' work.

    python -m attack.children two-readers SEED COUNT PLANT
    python -m attack.children damaged-import SEED DIRECTORY PLANT

Each tells what was wrong, as a JSON list of sentences.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from attack.aside import Hindered
from attack.mishaps import wrong
from attack.operation import Ask, Context, Operation, Steps

ALIKE = "the reader in C and the one in Python accept the same bytes"
REPORTED = "an item that cannot be moved is named, and the others are moved"

LIMIT = 240.0
"""Seconds that a child may take."""


class Child:
    """A child process, in either colour."""

    @staticmethod
    def run(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "attack.children", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        if ended.returncode:
            raise Hindered(f"{arguments[0]} ended with {ended.returncode}: {ended.stderr[-800:]}")
        found: list[str] = json.loads(ended.stdout)
        return found

    @staticmethod
    async def arun(*arguments: str) -> list[str]:
        return await asyncio.to_thread(Child.run, *arguments)


def told_by_child(context: Context, promise: str, name: str, *arguments: str) -> Steps:
    seed = str(context.random.randrange(1 << 30))
    with context.recorder.call("look", how=name, seed=seed):
        told = yield Ask(
            Child, "run", (name, seed, *arguments, context.shared.get("plant") or ""), {}
        )
        for what in told:
            wrong(context, promise, what)


def two_readers(context: Context) -> Steps:
    """Stored bytes are changed, and read with the accelerator and without it."""
    yield from told_by_child(context, ALIKE, "two-readers", "400")


def damaged_import(context: Context) -> Steps:
    """A LangGraph store with one damaged item is imported."""
    with tempfile.TemporaryDirectory(prefix="attack-import-") as directory:
        yield from told_by_child(context, REPORTED, "damaged-import", directory)


OPERATIONS = [
    Operation("two readers", two_readers, ("saver.get_tuple",), 0.2),
    Operation("damaged import", damaged_import, ("store.put",), 0.1, ("sqlite",)),
]


# -- in the child


def differences(seed: str, count: str) -> list[str]:
    """Bytes that the two readers do not read alike."""
    from milepost._internal import native

    if not native.AVAILABLE:
        return []
    from attack.stored_values import Readers

    return list(Readers().differences(random.Random(seed), int(count)))


DAMAGES = (
    "value = '{\"n\": 2'",
    "value = '[1, 2]'",
    "value = CAST(x'ff22fe' AS TEXT)",
    "value = x'ff22fe'",
    "created_at = 'yesterday'",
    "updated_at = x'00'",
    "ttl_minutes = 'soon'",
)


def import_of_damage(seed: str, directory: str) -> list[str]:
    """What is wrong with how one damaged item of some is reported."""
    import contextlib
    import io
    import sqlite3

    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.store.sqlite import SqliteStore
    except ImportError:
        return []
    from milepost.cli import main

    rng = random.Random(seed)
    count, damage = rng.randrange(2, 40), rng.choice(DAMAGES)
    victim = str(rng.randrange(count))
    theirs, ours = f"{directory}/theirs.db", f"{directory}/ours.db"
    with SqliteSaver.from_conn_string(theirs) as saver:
        saver.setup()
    with SqliteStore.from_conn_string(theirs) as store:
        store.setup()
        for number in range(count):
            store.put(("a", "b"), str(number), {"n": number})
    with contextlib.closing(sqlite3.connect(theirs)) as connection, connection:
        connection.execute(f"UPDATE store SET {damage} WHERE key = ?", (victim,))
    out, errors = io.StringIO(), io.StringIO()
    arguments = ["import", "--from-langgraph", f"sqlite:///{theirs}", "--to", f"sqlite:///{ours}"]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(arguments)
    except Exception as error:
        return [f"{damage}: the import ended with {error!r}"]
    said = out.getvalue() + errors.getvalue()
    copied = f"{count - 1} store items copied and verified."
    named = f"not copied: item '{victim}' in a.b: "
    if code != 1 or copied not in said or said.count(named) != 1:
        return [f"{damage} of {count} items: {code}: {said}"]
    return []


ERRANDS: dict[str, Callable[..., list[str]]] = {
    "two-readers": differences,
    "damaged-import": import_of_damage,
}


def run_errand() -> None:
    from attack.plants import PLANTS

    # The worker that sends it may have no room for a moment; what it looks at is its own.
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    name, *arguments, plant = sys.argv[1:]
    if plant:
        PLANTS[plant].put_back()
    told: Any = ERRANDS[name](*arguments)
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    run_errand()
