"""The tables of the Redis saver: every statement has an answer, every opcode a branch in a script."""

from __future__ import annotations

import re

from milepost.checkpoint._redis import guarded, scripts, without_scripts
from milepost.checkpoint._redis.names import REDIS
from milepost.checkpoint._redis.row_statements import INSERTS, UPDATES
from milepost.checkpoint._redis.scripts import Change, Condition, Request
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
    places = [INSERTS, UPDATES, *methods]
    names = [name for place in places for name in place if not name.startswith("_")]
    assert len(names) == len(set(names))
    wanted = {getattr(REDIS, name) for name in Statements.__annotations__} - {""}
    assert wanted - LOCAL_ONLY - SQL_ONLY - BY_CLASS <= {*names, *guarded._GUARDS}


def opcodes_in(source: str) -> list[str]:
    return re.findall(r"what == '(.)'", source)


def test_the_scripts_have_a_branch_for_each_opcode_and_for_no_other():
    assert sorted(opcodes_in(scripts.READ.source)) == sorted(Request)
    assert sorted(opcodes_in(scripts.WRITE.source)) == sorted([*Condition, *Change])


def test_the_branches_of_the_scripts_have_the_names_of_their_opcodes():
    for script, classes in ((scripts.READ, [Request]), (scripts.WRITE, [Condition, Change])):
        names = {one.value: one.name for cls in classes for one in cls}
        found = re.findall(r"what == '(.)' then -- (\w+)", script.source)
        assert dict(found) == names


def test_without_scripts_only_opcodes_that_a_view_does_not_make_are_missing():
    assert set(Request) - set(without_scripts._REQUESTS) == {Request.CHAINS, Request.CHECKPOINT}
    assert {*Condition, *Change} - set(without_scripts._CHANGES) == {
        Condition.DIFFERS,
        Condition.AT_LEAST,
        Condition.COUNT,
        Change.RAISE_VALUE,
        Change.ADD_ROW,
        Change.UPDATE_ROW,
    }
