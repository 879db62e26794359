"""Databases by their addresses: what is opened, and that reading changes nothing."""

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from inspect_shop import at, builder, fill
from langgraph_shop import fill_theirs, theirs

from milepost.checkpoint._contract.records import place_of
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import MilepostError
from milepost.inspect import (
    CannotOpenError,
    DamagedError,
    ReadOnlyError,
    Ref,
    blame,
    diff,
    dump,
    load_dump,
    log,
    open_database,
    salvage,
    show,
    stats,
    tag,
    threads,
    verify,
)

KEY = "0123456789abcdef"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        fill(saver)
    return path


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class TestSqlite:
    @pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "file://{}"])
    def test_a_path_or_an_address_names_a_file(self, file, form):
        with open_database(form.format(file)) as db:
            assert (db.kind, db.flavour, db.writable) == ("sqlite", "milepost", False)
            assert threads(db).total == 3

    def test_the_environment_names_one_if_nothing_else_does(self, file, monkeypatch):
        monkeypatch.setenv("MILEPOST_DB", f"sqlite:///{file}")
        with open_database() as db:
            assert threads(db).total == 3
        monkeypatch.delenv("MILEPOST_DB")
        with pytest.raises(CannotOpenError, match="MILEPOST_DB"):
            open_database()

    def test_reading_does_not_write_a_byte(self, file):
        before = digest(file)
        with open_database(str(file)) as db:
            list(log(db, "done"))
            show(db, Ref("open"))
            stats(db)
            blame(db, Ref("done"), ("messages",))
            diff(db, Ref("done"), Ref("open"))
            list(verify(db))
            with pytest.raises(ReadOnlyError):
                tag(db, Ref("done"), "x")
            with pytest.raises(MilepostError):  # not by way of the saver either
                db.saver.delete_thread("done")
        assert digest(file) == before

    def test_a_file_that_is_read_while_it_is_written_shows_the_latest(self, file):
        with SqliteSaver.from_conn_string(str(file)) as saver, open_database(str(file)) as db:
            graph = builder().compile(checkpointer=saver)
            graph.update_state(at("done"), {"count": 77})
            assert show(db, Ref("done")).values["count"] == 77

    def test_what_a_killed_process_left_is_read_with_its_log(self, tmp_path):
        path = tmp_path / "killed.db"
        script = (
            "import os, sys; from inspect_shop import fill\n"
            "from milepost.checkpoint.sqlite import SqliteSaver\n"
            "with SqliteSaver.from_conn_string(sys.argv[1]) as saver:\n"
            "    fill(saver); os._exit(9)\n"
        )
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        subprocess.run([sys.executable, "-c", script, str(path)], env=env, timeout=60)
        log_of_it = path.with_name("killed.db-wal")
        before = digest(path), digest(log_of_it)
        assert log_of_it.stat().st_size > path.stat().st_size
        with open_database(str(path)) as db:
            assert show(db, Ref("done")).values["count"] == 50
        assert (digest(path), digest(log_of_it)) == before

    def test_a_file_in_a_folder_that_cannot_be_written_is_read(self, file):
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        file.parent.chmod(0o500)
        try:
            with open_database(str(file)) as db:
                assert threads(db).total == 3
        finally:
            file.parent.chmod(0o700)

    def test_what_is_no_database_says_so(self, tmp_path):
        text = tmp_path / "text.db"
        text.write_text("no database " * 100)
        other = tmp_path / "other.db"
        with closing(sqlite3.connect(other)) as connection, connection:
            connection.execute("CREATE TABLE checkpoints (a)")
        empty = tmp_path / "empty.db"
        empty.touch()
        for path, said in (
            (tmp_path / "none.db", "There is no file"),
            (tmp_path, "is not a file"),
            (text, "cannot be read as a SQLite database"),
            (other, "neither milepost's nor LangGraph's"),
        ):
            with pytest.raises(CannotOpenError, match=said):
                open_database(str(path))
        with pytest.raises(CannotOpenError, match="holds no threads"):
            open_database(str(empty))
        assert not (tmp_path / "none.db").exists()

    def test_other_addresses_are_refused_without_their_passwords(self):
        with pytest.raises(CannotOpenError) as caught:
            open_database("mysql://me:secret@host/db")
        assert "secret" not in str(caught.value)

    def test_a_file_is_made_only_when_that_is_asked_for(self, tmp_path):
        path = tmp_path / "new.db"
        with pytest.raises(CannotOpenError):
            open_database(str(path), write=True)
        with open_database(str(path), write=True, create=True) as db:
            assert threads(db).total == 0

    def test_sealed_values_are_read_with_the_key_in_the_environment(self, tmp_path, monkeypatch):
        pytest.importorskip("Crypto")
        path = tmp_path / "sealed.db"
        serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY.encode())
        with SqliteSaver.from_conn_string(str(path), serde=serde) as saver:
            fill(saver)
        with open_database(str(path)) as db:
            [*_, entry] = log(db, "done")
            assert "encrypted" in (entry.problem or "")
            with pytest.raises(DamagedError):
                show(db, Ref("done"))
        monkeypatch.setenv("MILEPOST_AES_KEY", KEY)
        with open_database(str(path)) as db:
            assert show(db, Ref("done")).values["order"]["$type"] == "inspect_shop.Order"

    def test_a_dump_is_loaded_into_another_database(self, file, tmp_path):
        with open_database(str(file)) as db:
            lines = list(dump(db, ["done"]))
        with open_database(str(tmp_path / "b.db"), write=True, create=True) as other:
            assert load_dump(other, lines, rename={"done": "twin"}) == ["twin"]
            assert show(other, Ref("twin")).values["count"] == 50


class TestDamage:
    @pytest.fixture
    def damaged(self, file):
        """The largest stored value of `done` is not what was written."""
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(
                "UPDATE checkpoint_blobs SET blob = CAST(substr(blob, 1, 5) || x'00'"
                " || substr(blob, 7) AS BLOB) WHERE thread_id = 'done'"
            )
        return file

    def test_what_is_sound_is_shown_beside_what_is_not(self, damaged):
        with open_database(str(damaged)) as db:
            values = show(db, Ref("done")).values
            assert values["count"] == 50
            assert "damaged" in values["messages"]["$error"]
            assert show(db, Ref("open")).values["messages"][0]["content"] == "again"
            assert len(list(log(db, "done"))) == 5

    def test_verify_and_salvage_tell_what_is_lost(self, damaged):
        with open_database(str(damaged)) as db:
            assert {problem.thread_id for problem in verify(db)} == {"done"}
            newest = salvage(db, "done")[0]
            assert newest.values["count"] == 50
            assert list(newest.lost) == ["channel 'messages'"]

    def test_a_checkpoint_that_cannot_be_read_does_not_hide_the_others(self, file):
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(
                "UPDATE checkpoints SET metadata = x'00' WHERE thread_id = 'done' AND checkpoint_id"
                " = (SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'done')"
            )
        with open_database(str(file)) as db:
            newest, *older = log(db, "done")
            assert newest.problem is not None
            assert newest.parent_id is not None
            assert all(entry.problem is None for entry in older)
            with pytest.raises(DamagedError, match="verify"):
                show(db, Ref("done"))


class TestPostgres:
    @pytest.fixture
    def address(self, uri):
        with open_database(uri, write=True, create=True) as db:
            fill(db.saver)
        return uri

    def test_it_is_read_as_a_file_is(self, address):
        with open_database(address) as db:
            assert (db.kind, db.flavour) == ("postgres", "milepost")
            assert show(db, Ref("done")).values["order"]["$type"] == "inspect_shop.Order"
            assert stats(db).checkpoints == 10
            assert list(verify(db)) == []

    def test_the_server_refuses_every_change(self, address):
        with open_database(address) as db:
            with pytest.raises(MilepostError, match="read-only"):
                db.saver.delete_thread("done")
            assert threads(db).total == 3

    def test_a_database_without_tables_gets_none(self, uri):
        with pytest.raises(CannotOpenError, match="holds no threads"):
            open_database(uri)
        with pytest.raises(CannotOpenError, match="holds no threads"):
            open_database(uri, write=True)

    def test_a_server_that_is_not_there_is_told_without_the_password(self):
        with pytest.raises(CannotOpenError) as caught:
            open_database("postgresql://me:secret@127.0.0.1:1/none")
        assert "secret" not in str(caught.value)


class TestLangGraph:
    @pytest.fixture(params=["sqlite", "postgres"])
    def address(self, request, tmp_path):
        pytest.importorskip("langgraph")
        if request.param == "sqlite":
            address = str(tmp_path / "theirs.db")
        else:
            address = request.getfixturevalue("uri")
        with theirs(address) as saver:
            saver.setup()
            fill_theirs(saver)
        return address

    def test_its_threads_are_shown(self, address):
        with open_database(address) as db:
            assert db.flavour == "langgraph"
            [row] = threads(db).items
            assert (row.thread_id, row.status, row.checkpoints) == ("t", "interrupted", 6)
            assert threads(db, status="interrupted").total == 1
            assert threads(db, search="x").total == 0
            assert threads(db, metadata={"owner": None}).total == 0
            assert show(db, Ref.parse("t@~1")).status == "interrupted"
            view = show(db, Ref("t"))
            assert view.next == ("ask",)
            assert [one.value for one in view.interrupts] == [{"q": "ok?"}]
            human, *_ = view.values["messages"]
            assert (human["type"], human["content"]) == ("human", "hi")
            assert stats(db).checkpoints == 6

    def test_its_threads_are_found_by_their_metadata(self, address):
        with theirs(address) as saver:
            fill_theirs(saver, owner="ada")
        with open_database(address) as db:
            assert [row.metadata for row in threads(db, search="ADA").items] == [{"owner": "ada"}]

    def test_its_history_tells_which_node_wrote_what(self, address):
        with open_database(address) as db:
            told = [(entry.source, dict(entry.writes), list(entry.next)) for entry in log(db, "t")]
            assert told[0] == ("loop", {"plan": ["messages", "n"]}, ["ask"])
            sent = [keys for _, keys, _ in told if "part" in keys]
            assert sent == []  # they wait beside what asks
            parts = blame(db, Ref("t"), ("messages",))
            assert [part.nodes for part in parts][:2] == [("__start__",), ("plan",)]
            assert diff(db, Ref("t"), Ref("t")) == []
            changed = {change.path for change in diff(db, Ref.parse("t@~1"), Ref("t"))}
            assert changed == {("messages", 3), ("n",)}

    def test_what_an_older_version_sends_to_is_what_follows(self, address):
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.types import Send

        config = {"configurable": {"thread_id": "old", "checkpoint_ns": ""}}
        with theirs(address) as saver:
            config = saver.put(config, {**empty_checkpoint(), "v": 3}, {"step": 0}, {})
            saver.put_writes(config, [("__pregel_tasks", Send("work", 1))], "task")
            child = {**empty_checkpoint(), "v": 3}
            saver.put(config, child, {"source": "loop", "step": 1}, {})
        with open_database(address) as db:
            assert show(db, Ref("old")).next == ("work",)

    def test_a_snapshot_of_a_delta_channel_is_read(self, address):
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.serde.types import _DeltaSnapshot

        checkpoint = {
            **empty_checkpoint(),
            "channel_values": {"log": _DeltaSnapshot(["a"]), "yes": True},
            "channel_versions": {"log": "1.0", "yes": "2.0"},
        }
        config = {"configurable": {"thread_id": "delta", "checkpoint_ns": ""}}
        with theirs(address) as saver:
            saver.put(config, checkpoint, {"step": 0}, checkpoint["channel_versions"])
        with open_database(address) as db:
            values = db.reader.get_tuple(at("delta")).checkpoint["channel_values"]
        assert (values["log"].value, values["yes"]) == (["a"], True)

    @pytest.mark.parametrize("is_old", [False, True])
    def test_writes_are_in_the_order_in_which_its_graphs_apply_them(self, address, is_old):
        from langgraph.checkpoint.base import empty_checkpoint

        config = {"configurable": {"thread_id": "order", "checkpoint_ns": ""}}
        with theirs(address) as saver:
            config = saver.put(config, empty_checkpoint(), {"step": 0}, {})
            for task_id, path in (("z", "~__pregel_pull, a"), ("a", "~__pregel_pull, b")):
                saver.put_writes(config, [("log", path), ("more", 1)], task_id, path)
            if is_old:
                table = "checkpoint_writes" if address.startswith("postgres") else "writes"
                saver.conn.execute(f"ALTER TABLE {table} DROP COLUMN task_path")
                saver.conn.commit()
        with open_database(address) as db:
            found = db.reader.get_tuple(at("order"))
            paths = db.source.paths(place_of(found.config))
        tasks = ["a", "z"] if is_old else ["z", "a"]
        assert [write[0] for write in found.pending_writes] == [t for t in tasks for _ in "ab"]
        assert sorted(paths) == ([] if is_old else ["a", "z"])

    def test_sealed_values_are_opened_with_its_key(self, tmp_path, monkeypatch):
        pytest.importorskip("Crypto")
        from langgraph.checkpoint.serde.encrypted import EncryptedSerializer as Theirs

        address = str(tmp_path / "sealed.db")
        with theirs(address) as saver:
            saver.setup()
            saver.serde = Theirs.from_pycryptodome_aes(key=KEY.encode())
            fill_theirs(saver)
        monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
        with open_database(address) as db, pytest.raises(DamagedError, match="LANGGRAPH_AES_KEY"):
            show(db, Ref("t"))
        monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
        with open_database(address) as db:
            assert show(db, Ref("t")).values["n"] == 2
        monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY[::-1])
        with open_database(address) as db, pytest.raises(DamagedError, match="another one"):
            show(db, Ref("t"))

    def test_it_is_never_written(self, address):
        with open_database(address, write=True) as db:
            assert db.writable is False
            with pytest.raises(ReadOnlyError, match="import --from-langgraph"):
                tag(db, Ref("t"), "x")
