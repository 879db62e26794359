"""A disk that is really full: a typed error, an intact database, and a resume when there is room."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from full_disk import intact, prove

from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver


@pytest.fixture
def small() -> Any:
    """A file system of 1 MB. Not in pytest's own directory, which no other user may look into."""
    place = Path(tempfile.mkdtemp(prefix="milepost-small-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        place.rmdir()
        pytest.skip("mounting a file system is not allowed here; the quota stands in for it")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


def enlarge(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_sqlite_on_a_full_file_system(small, durability):
    path = str(small / "threads.db")
    with SqliteSaver.from_conn_string(path) as saver:
        prove(saver, durability, lambda: enlarge(small))
    assert intact(path)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_sqlite_with_a_quota(path, durability):
    """Files that may not grow: needs no rights, and fails in another place than a full disk."""
    child = str(Path(__file__).with_name("full_disk.py"))
    command = [sys.executable, child, path, durability]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "proved\n"), ended.stderr


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_postgres_with_tables_on_a_full_file_system(small, server, durability):
    import psycopg

    name = f"full_{durability}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        owner = Path(connection.execute("SHOW data_directory").fetchone()[0]).stat()
        os.chown(small, owner.st_uid, owner.st_gid)
        connection.execute(f"CREATE TABLESPACE {name} LOCATION '{small}'")
        connection.execute(f"CREATE DATABASE {name}")
    try:
        with PostgresSaver.from_conn_string(server.get_uri(name)) as saver:
            saver.setup()
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                saver.conn.execute(f"ALTER TABLE {table} SET TABLESPACE {name}")
            prove(saver, durability, lambda: enlarge(small))
    finally:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute(f"DROP TABLESPACE {name}")
