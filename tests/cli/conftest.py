"""Databases for the command line: the same threads on each backend, and LangGraph's own."""

import shutil
import sys
from pathlib import Path

import pytest

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.cli import main
from milepost.inspect import dump, load_dump, open_database

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))

BACKENDS = ("sqlite", "postgres", "redis")


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A file with the threads of the shop."""
    from inspect_shop import fill

    path = tmp_path_factory.mktemp("shop") / "shop.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        fill(saver)
    return path


@pytest.fixture(scope="session")
def dumped(filled):
    """The same as text."""
    with open_database(str(filled)) as db:
        return list(dump(db))


@pytest.fixture
def file(filled, tmp_path):
    return Path(shutil.copy(filled, tmp_path / "shop.db"))


@pytest.fixture(params=BACKENDS)
def address(request):
    """A database with the threads of the shop, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('file')}"
    if request.param == "redis":
        uri = request.getfixturevalue("redis_url")
    else:
        uri = request.getfixturevalue("shared_uri")
    with open_database(uri, write=True, create=True) as db:
        if request.param == "postgres":
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "threads"):
                db.saver.conn.execute(f"DELETE FROM {table}")
        load_dump(db, request.getfixturevalue("dumped"))
    return uri


@pytest.fixture(scope="session")
def langgraph_file(tmp_path_factory):
    """A file that LangGraph wrote."""
    pytest.importorskip("langgraph.checkpoint.sqlite")
    from langgraph_shop import fill_theirs, theirs

    path = tmp_path_factory.mktemp("theirs") / "theirs.db"
    with theirs(str(path)) as saver:
        saver.setup()
        fill_theirs(saver)
    return path


@pytest.fixture(scope="session")
def langgraph_uri(server):
    """A database of PostgreSQL that LangGraph wrote."""
    pytest.importorskip("langgraph.checkpoint.postgres")
    import psycopg
    from langgraph_shop import fill_theirs, theirs

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE theirs_of_cli")
    uri = str(server.get_uri("theirs_of_cli"))
    with theirs(uri) as saver:
        saver.setup()
        fill_theirs(saver)
    return uri


@pytest.fixture
def cli(capsys, monkeypatch):
    """Runs a command in this process: its status, output and errors."""
    monkeypatch.delenv("MILEPOST_GRAPH", raising=False)
    monkeypatch.delenv("MILEPOST_AES_KEY", raising=False)

    def run(*arguments):
        status = main([str(one) for one in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def milepost(cli, address, monkeypatch):
    """The same on each backend."""
    monkeypatch.setenv("MILEPOST_DB", address)
    return cli
