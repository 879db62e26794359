"""Databases of released formats, which are kept in tests/data/formats, are read and written on."""

import json
import shutil
from pathlib import Path

import pytest

from checkpoint.sql import format_sample
from checkpoint.sql.format_sample import ASKING, CHAT, FAILING, asking, at, chatting, failing, told
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.store.sqlite import SqliteStore
from milepost.types import Command

FORMATS = sorted((Path(__file__).parents[2] / "data" / "formats").iterdir())


@pytest.fixture(params=FORMATS, ids=lambda folder: folder.name)
def sample(request, tmp_path):
    return Path(shutil.copytree(request.param, tmp_path / "sample"))


def opened(sample: Path, name: str):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=format_sample.KEY)
    options = {"serde": serde} if name == "sealed.db" else {}
    return SqliteSaver.from_conn_string(str(sample / name), **options)


@pytest.mark.parametrize("name", ["threads.db", "sealed.db"])
def test_every_state_is_read_as_it_was_written(sample, name):
    expected = json.loads((sample / "expected.json").read_text("utf-8"))[name]
    with opened(sample, name) as saver:
        assert json.loads(json.dumps(told(saver))) == expected
        assert saver.verify() == []


@pytest.mark.parametrize("name", ["threads.db", "sealed.db"])
def test_its_threads_go_on(sample, name, monkeypatch):
    monkeypatch.setattr(format_sample, "is_repaired", True)
    with opened(sample, name) as saver:
        chat = chatting(saver).invoke({"messages": ["more"]}, at(CHAT), durability="sync")
        assert chat["messages"][-2] == "more"
        answered = asking(saver).invoke(Command(resume="yes"), at(ASKING))
        assert answered["messages"] == ["in", "in", "yes"]
        assert failing(saver).invoke(None, at(FAILING))["messages"] == ["repaired", "fine"]
        assert [one.thread_id for one in saver.list_threads(metadata={"owner": "u1"})] == [FAILING]
        assert saver.verify() == []


def test_its_dump_is_loaded_on_sqlite_and_postgresql(sample, tmp_path, uri):
    expected = json.loads((sample / "expected.json").read_text("utf-8"))["threads.db"]
    lines = (sample / "threads.dump").read_text("utf-8").splitlines()
    with (
        SqliteSaver.from_conn_string(str(tmp_path / "new.db")) as sqlite,
        PostgresSaver.from_conn_string(uri) as postgres,
    ):
        postgres.setup()
        for saver in (sqlite, postgres):
            saver.load(lines)
            assert json.loads(json.dumps(told(saver))) == expected
            assert saver.verify() == []


def test_its_items_are_found(sample):
    with SqliteStore.from_conn_string(str(sample / "store.db")) as store:
        assert store.get(("users", "u1"), "food").value == {"likes": ["soup"], "at": 1}
        assert [one.namespace for one in store.search(("users",), filter={"likes": "rice"})] == [
            ("users", "u2")
        ]
