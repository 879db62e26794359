"""The suite itself: how it is called, what it finds out, what it says."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from mutants import MUTANTS, Five

from graphs import PATIENCE
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import MissingDependencyError
from milepost.testing import ClauseFailed, all_clauses, check_saver, saver_tests
from milepost.testing._kit import checking, runner
from milepost.testing._kit.checking import Subject

BASE = ("put", "get_tuple", "list", "put_writes", "delete_thread")


class AsyncFive(BaseCheckpointSaver[str]):
    """The five methods, on a loop only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()
        for method in ("get_next_version",):
            setattr(self, method, getattr(self.inner, method))

    async def aput(self, *args: Any) -> Any:
        return await self.inner.aput(*args)

    async def aput_writes(self, *args: Any) -> None:
        await self.inner.aput_writes(*args)

    async def aget_tuple(self, config: Any) -> Any:
        return await self.inner.aget_tuple(config)

    async def alist(self, *args: Any, **kwargs: Any) -> Any:
        async for found in self.inner.alist(*args, **kwargs):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        await self.inner.adelete_thread(thread_id)


# -- what the factory may be

opened: list[str] = []


async def coroutine() -> InMemorySaver:
    return InMemorySaver()


def generator() -> Iterator[InMemorySaver]:
    opened.append("open")
    yield InMemorySaver()
    opened.append("closed")


async def async_generator() -> AsyncIterator[InMemorySaver]:
    opened.append("open")
    yield InMemorySaver()
    opened.append("closed")


FACTORIES = {
    "a class": InMemorySaver,
    "a coroutine": coroutine,
    "a generator": generator,
    "an async generator": async_generator,
    "a context manager": contextmanager(generator),
    "an async context manager": asynccontextmanager(async_generator),
}


@pytest.mark.parametrize("kind", FACTORIES)
def test_a_factory_may_be_sync_or_async_and_a_context_manager(kind):
    opened.clear()
    report = check_saver(FACTORIES[kind], groups=["delete_thread"])
    assert (len(report.passed), report.failed) == (8, ())
    times = 0 if kind in ("a class", "a coroutine") else 8
    assert opened == ["open", "closed"] * times


def test_a_factory_that_leads_to_no_saver_is_refused():
    report = check_saver(dict, groups=["delete_thread"])
    assert not report.ok
    assert "must lead to a BaseCheckpointSaver, not to a dict" in report.failed[0].reason


# -- colours and capabilities


@pytest.mark.parametrize(("make", "other"), [(Five, "async"), (AsyncFive, "sync")])
def test_a_saver_of_one_colour_is_tested_in_it_and_refuses_the_other_at_once(make, other):
    report = check_saver(make)
    assert report.failed == ()
    assert {one.clause for one in report.passed if one.colour == other} == {
        "a_missing_colour_is_refused",
        "a_graph_of_the_other_colour_runs_or_is_refused",
    }
    in_its_own = {one.group for one in report.passed if one.colour != other}
    assert in_its_own >= {*BASE, "delta", "concurrency", "crashes"}


def test_what_is_skipped_says_why():
    reasons = {one.clause: one.reason for one in check_saver(Five, groups=["prune"]).skipped}
    assert reasons["prune_keeps_the_latest"] in (
        "Five does not implement prune()",
        "Five does not implement aprune()",
        "Five has no async methods: they are left out",
    )
    assert all(reasons.values())


def test_an_optional_method_may_say_that_it_is_not_there():
    class Refuses(InMemorySaver):
        def copy_thread(self, *args: Any) -> None:
            raise NotImplementedError("no copies here")

    report = check_saver(Refuses, groups=["copy_thread"])
    assert report.failed == ()
    reasons = {one.reason for one in report.skipped if one.colour == "sync"}
    assert reasons == {"Refuses does not implement it: NotImplementedError('no copies here')"}


def test_clauses_need_not_start_from_an_empty_storage():
    one = InMemorySaver()
    assert check_saver(lambda: one, groups=BASE).failed == ()
    assert check_saver(lambda: one, groups=BASE).failed == ()


# -- the report


def test_a_report_says_what_failed_and_how():
    broken = MUTANTS["limit_bounds_a_listing"].broken
    report = check_saver(broken, groups=["list"])
    assert not report.ok
    assert {one.clause for one in report.failed} >= {"limit_bounds_a_listing"}
    assert len(report.passed) + len(report.failed) + len(report.skipped) == len(report.outcomes)
    failure = next(one for one in report.failed if one.clause == "limit_bounds_a_listing")
    assert failure.reason == (
        "`limit` gives at most that many, the newest; 0 gives none. "
        "limit=2: expected [4, 3], found [4, 3, 2, 1, 0]."
    )
    assert "failed  sync  list: limit_bounds_a_listing" in str(report)
    with pytest.raises(ClauseFailed, match="limit_bounds_a_listing"):
        report.raise_failures()


def test_a_sound_saver_raises_nothing():
    report = check_saver(InMemorySaver, groups=["list"])
    report.raise_failures()
    assert report.ok
    assert str(report) == "InMemorySaver: 18 passed, 0 failed, 0 skipped"


def test_unknown_groups_are_refused():
    with pytest.raises(ValueError, match="put_writes"):
        check_saver(InMemorySaver, groups=["puts"])


def test_a_saver_that_hangs_fails(monkeypatch):
    never = threading.Event()

    class Hangs(InMemorySaver):
        def delete_thread(self, thread_id: str) -> None:
            never.wait(PATIENCE)

    monkeypatch.setattr(checking, "LIMIT", 0.05)
    [clause] = [c for c in all_clauses() if c.name == "deleting_what_is_not_there_is_no_error"]
    outcome = Subject(Hangs).check(clause, "sync")
    never.set()
    assert outcome.status == "failed"
    assert "did not answer within 0.05 seconds" in outcome.reason


def test_a_method_that_blocks_a_loop_fails(monkeypatch):
    never = threading.Event()

    class Blocks(InMemorySaver):
        async def aput(self, *args: Any) -> Any:
            if "elsewhere" in args[0]["configurable"]["thread_id"]:
                never.wait(PATIENCE)  # that is what is wrong with it
            return self.put(*args)

    monkeypatch.setattr(runner, "AT_ONCE", 0.05)
    [clause] = [c for c in all_clauses() if c.name == "methods_answer_at_once_in_awkward_places"]
    outcome = Subject(Blocks).check(clause, "async")
    never.set()
    assert "did not answer" in outcome.reason


# -- pytest


def test_three_lines_make_a_named_test_of_every_clause(tmp_path):
    tmp_path.joinpath("test_it.py").write_text(
        "from milepost.checkpoint.memory import InMemorySaver\n"
        "from milepost.testing import saver_tests\n"
        "test_my_saver = saver_tests(InMemorySaver, groups=['put', 'persistence'])\n"
    )
    tmp_path.joinpath("test_fixture.py").write_text(
        "from milepost.checkpoint.sqlite import SqliteSaver\n"
        "from milepost.testing import saver_tests\n"
        "test_it = saver_tests(lambda tmp_path: SqliteSaver.from_conn_string(str(tmp_path / 'db')),\n"
        "                      persistent=True, groups=['persistence'])\n"
    )
    tmp_path.joinpath("test_broken.py").write_text(
        "from milepost.checkpoint.memory import InMemorySaver\n"
        "from milepost.testing import saver_tests\n"
        "class Broken(InMemorySaver):\n"
        "    def delete_thread(self, thread_id): pass\n"
        "test_it = saver_tests(Broken, groups=['delete_thread'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    said = done.stdout
    assert "test_it.py::test_my_saver[sync-put-versions_grow] PASSED" in said
    assert "test_it.py::test_my_saver[async-put-versions_grow] PASSED" in said
    assert "test_my_saver[sync-persistence-a_paused_run_goes_on_after_reopening] SKIPPED" in said
    assert "what_was_stored_is_there_after_reopening] PASSED" in said
    assert "test_it[sync-delete_thread-delete_thread_removes_all_of_it] FAILED" in said
    assert "A deleted thread has no checkpoint left, in no namespace. the latest of" in said
    assert "Traceback" not in said


def test_without_pytest_there_is_still_check_saver(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(MissingDependencyError, match="pip install pytest"):
        saver_tests(InMemorySaver)
    assert check_saver(InMemorySaver, groups=["list"]).ok


def test_importing_the_kit_does_not_import_pytest():
    program = "import sys, milepost.testing; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
