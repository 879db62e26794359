"""The checks of a store find what they are for."""

from __future__ import annotations

from typing import Any

import pytest

from attack.history import Event
from attack.store_checks import Checks
from attack.store_model import MODELS, PAIR, text_of

ITEM = "attack/a:k0"
START = 1_700_000_000.0


class History:
    """A history that is written down by hand. Times are in seconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def call(
        self,
        begin: float,
        end: float | None,
        *,
        operation: str = "store_batch",
        writes: list[dict[str, Any]] = [],  # noqa: B006
        reads: list[dict[str, Any]] = [],  # noqa: B006
        found: list[Any] = [],  # noqa: B006
        error: str | None = None,
        model: str = "old",
        **more: Any,
    ) -> None:
        number, clock = len(self.events), more.pop("clock", START + begin)
        arguments = {"clock": clock, "model": model, "writes": writes, "reads": reads, **more}
        rest = (number, "begin", int(begin * 1e9), operation, arguments)
        self.events.append(Event("w", 0, *rest))
        if end is not None:
            result = {"clock": max(clock, START + end), "found": found}
            told = None if error is None else [error, "it says so"]
            outcome = ("ok", result) if error is None else ("error", None)
            rest = (number, "end", int(end * 1e9), operation, arguments)
            self.events.append(Event("w", 0, *rest, *outcome, told))

    def put(self, begin: float, end: float | None, token: str, **more: Any) -> None:
        item = more.pop("item", ITEM)
        write = {"item": item, "token": token, "index": True, "ttl": None, "if_version": None}
        settings = {name: more.pop(name) for name in ("index", "ttl", "if_version") if name in more}
        self.call(begin, end, writes=[{**write, **settings}], **more)

    def delete(self, begin: float, end: float | None, **more: Any) -> None:
        self.put(begin, end, None, **more)  # type: ignore[arg-type]

    def get(self, begin: float, end: float, token: str | None, version: int = 1, **more: Any):
        view = {} if token is None else {ITEM: [token, version, None]}
        read = {"scope": "get", "items": [ITEM], "refresh": more.pop("refresh", False)}
        self.call(begin, end, reads=[read], found=[view], **more)

    def search(self, begin: float, end: float, view: Any, **more: Any) -> None:
        query = more.pop("query", None)
        asked = {"scope": "search", "prefix": ["attack"], "kind": more.pop("kind", None)}
        self.call(
            begin, end, reads=[{**asked, "query": query, "refresh": False}], found=[view], **more
        )

    def broken(self) -> set[str]:
        """The promises that the checks find broken."""
        return {violation.promise for violation in Checks().violations(self.events)}


@pytest.fixture
def history() -> History:
    return History()


def test_a_history_in_which_all_is_well_breaks_nothing(history):
    history.get(0, 1, None)
    history.put(2, 3, "x")
    history.get(2.5, 4, None)
    history.get(2.5, 4, "x")
    history.put(5, 6, "y", if_version=1)
    history.put(7, 8, "z", if_version=1, error="milepost.errors.VersionConflict")
    history.get(9, 10, "y", 2)
    history.delete(11, 12)
    history.get(13, 14, None)
    history.put(15, 16, "t", ttl=5)
    history.get(17, 18, "t", 3)
    history.get(22, 23, None)
    assert history.broken() == set()


def test_a_put_that_never_ended_may_have_happened_or_not(history):
    history.put(0, 1, "x")
    history.put(2, None, "y")
    history.get(3, 4, "x", 1)
    history.get(5, 6, "y", 2)
    assert history.broken() == set()


@pytest.mark.parametrize("kind", ["terminate", "stop"])
def test_a_put_is_done_twice_only_if_a_connection_was_lost(history, kind):
    history.put(0, 9, "x")
    history.call(1, 2, operation="fault", kind=kind)
    history.get(3, 4, "x", 1)
    history.delete(5, 6)
    history.get(7, 8, "x", 2)
    assert bool(history.broken()) == (kind == "stop")


def test_a_read_of_what_nobody_put_is_found(history):
    history.put(0, 1, "x", if_version=7, error="milepost.errors.VersionConflict")
    history.get(2, 3, "x")
    assert "an item is what somebody put" in history.broken()


def test_a_stale_read_is_found(history):
    history.put(0, 1, "x")
    history.put(2, 3, "y")
    history.get(4, 5, "x")
    assert history.broken() == {"what was replaced or deleted does not come back"}


def test_a_deleted_item_that_comes_back_is_found(history):
    history.put(0, 1, "x")
    history.delete(2, 3)
    history.get(4, 5, "x")
    assert history.broken() == {"what was replaced or deleted does not come back"}


def test_two_reads_that_cannot_be_put_in_order_are_found(history):
    history.put(0, 20, "x")
    history.put(0, 20, "y")
    history.get(1, 2, "x", 1)
    history.get(3, 4, "y", 2)
    history.get(5, 6, "x", 1)
    assert "what was replaced or deleted does not come back" in history.broken()


def test_an_item_that_vanishes_is_found(history):
    history.put(0, 1, "x")
    history.get(2, 3, None)
    assert history.broken() == {"an item that was put is found by key, namespace or field"}


def test_an_item_without_a_vector_is_found(history):
    history.put(0, 1, "x")
    history.search(2, 3, {}, query="anything")
    assert history.broken() == {"an item that was put is found by meaning"}


def test_an_item_without_a_vector_is_in_order_if_it_was_put_so(history):
    history.put(0, 1, "x", index=False)
    history.search(2, 3, {}, query="anything")
    assert history.broken() == set()


def test_an_item_that_lives_on_after_its_time_is_found(history):
    history.put(0, 1, "x", ttl=5)
    history.get(2, 3, "x", refresh=True)
    history.get(7, 7.5, "x")
    history.get(9, 9.5, "x")
    assert history.broken() == {"an item that has expired is not found"}


def test_a_clock_that_only_a_refused_call_shows_explains_that_an_item_has_expired(history):
    history.put(0, 1, "x", ttl=5)
    history.put(2, 3, "y", if_version=7, clock=START + 8, error="milepost.errors.VersionConflict")
    history.get(4, 4.5, None)
    assert history.broken() == set()


def test_an_item_that_expires_although_it_was_read_is_found(history):
    history.put(0, 1, "x", ttl=5)
    history.get(3, 4, "x", refresh=True)
    history.get(6, 7, None)
    assert history.broken() == {"an item that was put is found by key, namespace or field"}


def test_a_version_that_is_used_twice_is_found(history):
    history.put(0, 1, "x")
    history.get(2, 3, "x", 1)
    history.delete(4, 5)
    history.put(6, 7, "y")
    history.get(8, 9, "y", 1)
    assert "a version is never used twice" in history.broken()


def test_a_version_that_is_smaller_than_the_one_before_is_found(history):
    history.put(0, 1, "x")
    history.get(2, 3, "x", 5)
    history.put(4, 5, "y")
    history.get(6, 7, "y", 4)
    assert history.broken() == {"a later put has a larger version"}


def test_a_lost_update_is_found(history):
    history.put(0, 1, "x")
    history.get(2, 3, "x", 1)
    history.put(4, 8, "y", if_version=1)
    history.put(4, 8, "z", if_version=1)
    assert history.broken() == {"a put with a version replaces that version and no other"}


def test_a_put_that_takes_an_item_for_a_new_one_is_found(history):
    history.put(0, 1, "x")
    history.put(2, 3, "y", if_version=0)
    assert history.broken() == {"an item that was put is found by key, namespace or field"}


def test_a_conflict_without_a_reason_is_found(history):
    history.put(0, 1, "x")
    history.get(2, 3, "x", 1)
    history.put(4, 5, "y", if_version=1, error="milepost.errors.VersionConflict")
    history.get(6, 7, "x", 1)
    assert history.broken() == {"a put with the version that is there is accepted"}


def test_half_a_batch_is_found(history):
    left, right = map(str, PAIR)
    both = {"index": True, "ttl": None, "if_version": None}
    for at, token in ((0, "x"), (2, "y")):
        writes = [{"item": twin, "token": token, **both} for twin in (left, right)]
        history.call(at, at + 5, writes=writes)
    history.search(3, 4, {left: ["x", 1, None], right: ["y", 2, None]})
    assert history.broken() == {"a batch is seen whole or not at all"}


def test_a_vector_of_something_else_is_found(history):
    history.put(0, 1, "x")
    query = text_of("x")
    other = MODELS["new"].score(query, text_of("y"))
    history.search(2, 3, {ITEM: ["x", 1, other]}, query=query)
    assert history.broken() == {"an item is found by the meaning of what it says now"}


def test_an_error_without_a_type_is_found(history):
    history.put(0, 1, "x", error="builtins.AssertionError")
    assert history.broken() == {"a call ends with an error that says what to do"}


def test_views_that_differ_at_a_quiet_moment_are_found(history):
    history.put(0, 1, "x")
    same = {"clock": START + 2, "frozen": True}
    history.get(2, 3, "x", how="by key", **same)
    history.search(4, 5, {}, how="by search", **same)
    assert "an item is found in every way or in none" in history.broken()


def test_what_a_round_has_left_is_known_in_the_next():
    checks, first, second = Checks(), History(), History()
    first.put(0, 1, "x")
    first.get(2, 3, "x", how="by key", clock=START + 2, frozen=True)
    assert not list(checks.violations(first.events))
    second.get(4, 5, "x")
    second.get(6, 7, None)
    found = {violation.promise for violation in checks.violations(second.events)}
    assert found == {"an item that was put is found by key, namespace or field"}


@pytest.mark.parametrize("deleted", [False, True])
def test_an_item_that_expired_in_a_round_lives_again_only_if_it_was_not_deleted(deleted):
    checks, first, second = Checks(), History(), History()
    first.put(0, 1, "x", ttl=5)
    if deleted:
        first.delete(2, 3)
    first.get(9, 10, None, how="by key", clock=START + 9, frozen=True)
    assert not list(checks.violations(first.events))
    second.get(11, 12, "x", clock=START - 3600)
    found = {violation.promise for violation in checks.violations(second.events)}
    assert found == ({"an item is what somebody put"} if deleted else set())


def test_what_a_probe_says_is_wrong_is_found(history):
    told = {"promise": "filters agree", "what": "they do not"}
    history.events.append(Event("w", 0, 0, "note", 0, "wrong of a store", told))
    assert history.broken() == {"filters agree"}


@pytest.mark.parametrize(("error", "is_broken"), [("KeyError", True), ("StorageError", False)])
def test_a_probe_ends_with_an_error_that_is_typed(history, error, is_broken):
    history.call(0, 1, operation="probe", error=f"some.{error}")
    assert bool(history.broken()) == is_broken
