"""One call seals a whole saver with a new key while others work with it, and the old key can go."""

import asyncio
import sqlite3
import threading
from typing import Any

import pytest
from test_databases import asking, content

from graphs import line, thread
from milepost.checkpoint._sql.admin import reencrypt as resealing
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import CheckpointError, DecryptionError

OLD, NEW = b"o" * 32, b"n" * 32
CELLS = {
    "checkpoints": ("frame", "metadata"),
    "checkpoint_blobs": ("blob",),
    "checkpoint_writes": ("blob",),
}


def ring(**keys: bytes) -> EncryptedSerializer:
    return EncryptedSerializer(AesKeyRing(keys))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Any:
    """Opens savers on one database; `.execute` runs SQL on it."""
    return Database(request)


class Database:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.lite = request.param == "sqlite"
        self.at = request.getfixturevalue("path" if self.lite else "uri")

    def __call__(self, serde: Any = None) -> Any:
        kind: Any = SqliteSaver if self.lite else PostgresSaver
        return kind.from_conn_string(self.at, serde=serde)

    def execute(self, sql: str, *values: Any) -> list[Any]:
        import psycopg

        connection: Any = sqlite3.connect(self.at) if self.lite else psycopg.connect(self.at)
        with connection:
            cursor = connection.execute(sql if self.lite else sql.replace("?", "%s"), values)
            rows = cursor.fetchall() if cursor.description else []
        connection.close()
        return rows

    def sealed_with(self, key: str) -> int:
        """How many stored cells name this key."""
        label = f"aes:{key}".encode()
        return sum(
            label in bytes(cell)[:40]
            for table, cells in CELLS.items()
            for row in self.execute(f"SELECT {', '.join(cells)} FROM {table}")
            for cell in row
        )


@pytest.fixture
def reencrypted(request: pytest.FixtureRequest, colour: str) -> Any:
    """`reencrypt` in each colour."""
    del request
    if colour == "sync":
        return lambda saver, *args, **options: saver.reencrypt(*args, **options)
    return lambda saver, *args, **options: asyncio.run(saver.areencrypt(*args, **options))


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


def fill(saver: Any, turns: int = 20) -> None:
    graph = line("a", "b").compile(checkpointer=saver)
    for n in range(turns):
        graph.invoke({"log": ["x" * 200]}, thread(f"t{n % 2}"))
    asking(saver).invoke({"log": ["in"]}, thread("asking"))


def test_after_rotating_under_traffic_the_old_key_can_be_dropped(
    database, reencrypted, monkeypatch
):
    """Between any two transactions another saver, with the new ring, writes and folds."""
    monkeypatch.setattr(resealing, "_ROWS", 7)
    monkeypatch.setattr(resealing, "_LOOKED_AT", 20)
    with database(ring(old=OLD)) as before:
        if not database.lite:
            before.setup()
        fill(before)
    assert database.sealed_with("old") > 50
    seen = []
    with database(ring(old=OLD, new=NEW)) as saver, database(ring(old=OLD, new=NEW)) as other:
        graph = line("a", "b").compile(checkpointer=other)

        def traffic(done: int, total: int) -> None:
            seen.append((done, total))
            name = f"t{len(seen) % 4}"
            graph.invoke({"log": [f"{len(seen)}" * 200]}, thread(name))
            if len(seen) == 3:
                other.copy_thread("t0", "a copy")
            if len(seen) == 5:
                other.prune(["t1"], keep=2)

        first = reencrypted(saver, progress=traffic)
        assert first.resealed > 50
        assert seen == sorted(seen)
        assert seen[-1] == (3, 3)
        assert len(seen) > 5
        assert first.refused == []
        assert not first
        again = reencrypted(saver)
        assert again
        assert (again.resealed, again.refused) == (0, [])
        assert again.current > first.resealed
        expected = content(saver)
    assert database.sealed_with("old") == 0
    with database(ring(new=NEW)) as after:
        assert content(after) == expected
        assert after.verify() == []
        graph = line("a", "b").compile(checkpointer=after)
        state = graph.get_state(thread("t0")).values["log"]
        assert graph.invoke({"log": ["more"]}, thread("t0"))["log"] == [*state, "more", "a", "b"]


def test_runs_in_another_thread_lose_nothing(database):
    with database(ring(old=OLD)) as before:
        if not database.lite:
            before.setup()
        fill(before)
    stop = threading.Event()
    written: list[str] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with database(ring(old=OLD, new=NEW)) as mine:
                graph = line("a", "b").compile(checkpointer=mine)
                while not stop.is_set() or not written:
                    entry = f"entry {len(written)} " * 20
                    graph.invoke({"log": [entry]}, thread("t0"))
                    written.append(entry)
        except BaseException as failure:
            failures.append(failure)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with database(ring(old=OLD, new=NEW)) as saver:
            while not saver.reencrypt():
                pass
    finally:
        stop.set()
        worker.join()
    assert failures == []
    assert database.sealed_with("old") == 0
    with database(ring(new=NEW)) as after:
        assert after.verify() == []
        log = line("a", "b").compile(checkpointer=after).get_state(thread("t0")).values["log"]
        assert [entry for entry in log if entry.startswith("entry")] == written


def test_what_is_stored_in_the_clear_is_sealed(database, reencrypted):
    with database() as plain:
        if not database.lite:
            plain.setup()
        fill(plain)
        expected = content(plain)
    with (
        database(ring(new=NEW)) as saver,
        pytest.raises(DecryptionError, match="not encrypted"),
    ):
        content(saver)
    with database(ring(new=NEW)) as saver:
        refused = reencrypted(saver)
        assert refused.resealed == refused.current == 0
        assert len(refused.refused) > 50
    serde = EncryptedSerializer(AesKeyRing({"new": NEW}), allow_plaintext=True)
    with database(serde) as saver:
        assert content(saver) == expected
        assert reencrypted(saver).refused == []
        assert reencrypted(saver)
    with database(ring(new=NEW)) as saver:
        assert content(saver) == expected
        assert saver.verify() == []


def test_an_interrupted_call_is_taken_up_by_the_next(database, reencrypted, monkeypatch):
    monkeypatch.setattr(resealing, "_ROWS", 5)
    with database(ring(old=OLD)) as before:
        if not database.lite:
            before.setup()
        fill(before)

    transactions = []

    def pull_the_plug(*done: int) -> None:
        transactions.append(done)
        if len(transactions) == 8:
            raise KeyboardInterrupt

    with database(ring(old=OLD, new=NEW)) as saver:
        with pytest.raises(KeyboardInterrupt):
            reencrypted(saver, progress=pull_the_plug)
        assert 0 < database.sealed_with("new") < database.sealed_with("old")
        second = reencrypted(saver)
        assert second.current >= 10
    assert database.sealed_with("old") == 0


def test_a_row_that_does_not_open_is_named_and_left_alone(database, reencrypted):
    with database(ring(old=OLD)) as before:
        if not database.lite:
            before.setup()
        fill(before)
    select = "SELECT checkpoint_id, metadata FROM checkpoints WHERE thread_id = ?"
    id, cell = database.execute(select, "t0")[0]
    bad = bytes(cell)[:-1] + bytes([bytes(cell)[-1] ^ 1])
    update = "UPDATE checkpoints SET metadata = ? WHERE checkpoint_id = ? AND thread_id = ?"
    database.execute(update, bad, id, "t0")
    with database(ring(old=OLD, new=NEW)) as saver:
        (problem,) = reencrypted(saver).refused
        assert problem.thread_id == "t0"
        assert (problem.table, problem.key) == ("checkpoints", id)
        assert "altered" in problem.reason
        assert reencrypted(saver, ["t1", "asking"])
    assert database.execute(select + " AND checkpoint_id = ?", "t0", id)[0][1] == bad


def test_a_saver_that_does_not_encrypt_says_so(database):
    with database() as saver:
        if not database.lite:
            saver.setup()
        with pytest.raises(CheckpointError, match="Nothing is encrypted"):
            saver.reencrypt()


def test_a_cipher_of_ones_own_rotates_by_its_names(path):
    class Own:
        """Reverses the bytes, with a name for every key; a real one would encrypt."""

        def __init__(self, *names: str) -> None:
            self.names = names

        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return self.names[-1], plaintext[::-1]

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            if ciphername not in self.names:
                raise ValueError(ciphername)
            return ciphertext[::-1]

    with SqliteSaver.from_conn_string(path, serde=EncryptedSerializer(Own("one"))) as saver:
        fill(saver, 4)
        expected = content(saver)
    both = EncryptedSerializer(Own("one", "two"))
    with SqliteSaver.from_conn_string(path, serde=both) as saver:
        assert saver.reencrypt().resealed
    with SqliteSaver.from_conn_string(path, serde=EncryptedSerializer(Own("two"))) as saver:
        assert content(saver) == expected
