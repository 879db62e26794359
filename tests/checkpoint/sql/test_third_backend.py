"""A backend takes a few hundred lines: one keeps the whole contract, and is as short as that."""

from __future__ import annotations

import os
from pathlib import Path

import third_backend
from third_backend import ThirdSaver

from milepost.testing import saver_tests


def third(tmp_path: Path) -> ThirdSaver:
    return ThirdSaver(tmp_path / "threads.db")


GROUPS = None if os.environ.get("MILEPOST_LONG") else ("put", "get_tuple", "list", "put_writes")
"""The groups of clauses; without the long form those that every saver needs."""

test_it_keeps_every_clause_of_the_contract = saver_tests(third, persistent=True, groups=GROUPS)


def test_a_third_backend_takes_less_than_400_lines():
    assert len(Path(third_backend.__file__).read_text().splitlines()) < 400
