"""Rows that somebody has deleted, emptied or put back to an older copy are missed by who reads."""

from __future__ import annotations

from typing import Any

import pytest

from graphs import line, thread
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.errors import DamagedRowError

CONFIG = thread("t")


@pytest.fixture(params=["sqlite", "postgres", "encrypted"])
def saver(request: pytest.FixtureRequest) -> Any:
    if request.param != "encrypted":
        return request.getfixturevalue(request.param)
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 16)
    return request.getfixturevalue("sqlite").with_serde(serde)


def anew(saver: Any) -> Any:
    """A saver on the same database that remembers nothing."""
    return saver.with_serde(saver.serde)


def change(saver: Any, sql: str, *values: Any) -> int:
    """Change rows by hand; how many they were."""
    if "Postgres" in type(saver).__name__:
        sql = sql.replace("?", "%s")
    return saver.conn.execute(sql, values).rowcount


def rows(saver: Any, sql: str, *values: Any) -> list[Any]:
    if "Postgres" in type(saver).__name__:
        sql = sql.replace("?", "%s")
    return saver.conn.execute(sql, values).fetchall()


def test_an_entry_that_was_put_back_does_not_make_an_old_state_the_latest(saver: Any) -> None:
    graph = line("a").compile(checkpointer=saver)
    graph.invoke({}, CONFIG, durability="sync")
    old = rows(saver, "SELECT head, token, epoch, status FROM threads WHERE thread_id = 't'")[0]
    graph.invoke({}, CONFIG, durability="sync")
    latest = graph.get_state(CONFIG)
    assert latest.values == {"log": ["a", "a"]}
    sql = "UPDATE threads SET head = ?, token = ?, epoch = ?, status = ? WHERE thread_id = 't'"
    change(saver, sql, *old)
    fresh = line("a").compile(checkpointer=anew(saver))
    for read in (
        lambda: graph.get_state(CONFIG),
        lambda: fresh.get_state(CONFIG),
        lambda: fresh.invoke({}, CONFIG),
        lambda: fresh.update_state(CONFIG, {"log": ["x"]}),
        lambda: anew(saver).get_delta_channel_history(config=CONFIG, channels=["log"]),
    ):
        with pytest.raises(DamagedRowError, match=f"'t'.*'{old[0]}'"):
            read()
    [problem] = saver.verify()
    assert problem[:4] == ("t", "", "threads", "t")
    # The history does not ask the registry, and tells where to go on from.
    history = list(fresh.get_state_history(CONFIG))
    assert history[0].values == {"log": ["a", "a"]}
    assert fresh.invoke({}, history[0].config, durability="sync") == {"log": ["a", "a", "a"]}
    assert fresh.get_state(CONFIG).values == {"log": ["a", "a", "a"]}
    assert saver.verify() == []
