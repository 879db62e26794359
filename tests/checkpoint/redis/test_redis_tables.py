"""The tables of the Redis saver: every statement has an answer, every opcode a branch in a script."""

from __future__ import annotations

import re

from milepost.checkpoint._redis import guarded, scripts
from milepost.checkpoint._redis.names import REDIS
from milepost.checkpoint._redis.row_statements import INSERTS, SEALED, UPDATES
from milepost.checkpoint._redis.scripts import Change, Condition
from milepost.checkpoint._redis.transaction import ANSWERED_BY
from milepost.checkpoint._sql.statements import Statements

LOCAL_ONLY = {REDIS.blob}
"""Statements for databases in this process."""
SQL_ONLY = {
    *(REDIS.list_threads, REDIS.list_ids, REDIS.list_metadata, REDIS.count_threads),
    *(REDIS.has_metadata, REDIS.has_tag, REDIS.has_digest, REDIS.is_sealed, REDIS.has_text),
}
"""Searches and conditions of a registry in SQL: on Redis threads are filtered by the client."""
BY_CLASS = {REDIS.add_if_held}
"""Statements that are recognised by their class."""


def test_every_statement_of_a_saver_is_answered_in_one_place():
    methods = [vars(owner) for owner in set(ANSWERED_BY.values())]
    places = [INSERTS, UPDATES, SEALED, *methods]
    names = [name for place in places for name in place if not name.startswith("_")]
    assert len(names) == len(set(names))
    wanted = {getattr(REDIS, name) for name in Statements.__annotations__} - {""}
    assert wanted - LOCAL_ONLY - SQL_ONLY - BY_CLASS <= {*names, *guarded._GUARDS}


def test_the_script_that_writes_has_a_branch_for_each_opcode_and_for_no_other():
    opcodes = re.findall(r"what == '(.)'", scripts.WRITE.source)
    assert sorted(opcodes) == sorted([*Condition, *Change])


def test_the_branches_of_the_script_have_the_names_of_their_opcodes():
    names = {one.value: one.name for cls in (Condition, Change) for one in cls}
    found = re.findall(r"what == '(.)' then -- (\w+)", scripts.WRITE.source)
    assert dict(found) == names
