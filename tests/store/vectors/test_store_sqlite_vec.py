"""Search by meaning inside SQLite, with sqlite-vec.

Some builds of Python cannot load extensions into their sqlite3. A drop-in module can, and takes
its place in a process of its own, as it would in a program.
"""

import subprocess
import sys
from pathlib import Path

import pytest

MEANING = Path(__file__).parents[1] / "test_store_meaning.py"

PROGRAM = """
import sys
import pysqlite3
import pysqlite3.dbapi2
sys.modules["sqlite3"] = pysqlite3
sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2

import pytest

searches = []

class InsideSqlite:
    def pytest_sessionstart(self):
        from milepost.store._vectors.sqlite import LiteVectors

        search = LiteVectors._in_sqlite

        def counting(self, *arguments):
            searches.append(1)
            return search(self, *arguments)

        LiteVectors._in_sqlite = LiteVectors._in_numpy = counting

arguments = ["-n0", "-p", "no:cacheprovider", sys.argv[1], "-k", "sqlite"]
failed = pytest.main(arguments, plugins=[InsideSqlite()])
sys.exit(failed or not searches)
"""


def test_finds_what_every_store_finds():
    pytest.importorskip("pysqlite3")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(MEANING)],
        cwd=MEANING.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
