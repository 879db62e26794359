"""Ids that are made when somebody wants to know them."""

import threading

import pytest

from milepost._internal import ids
from milepost._internal.ids import LateId, checkpoint_id


@pytest.fixture
def clock_went_back(monkeypatch):
    monkeypatch.setattr(ids.time, "time_ns", lambda: 10**18)


def test_a_late_id_comes_after_those_that_it_must_follow(clock_went_back):
    old, head = checkpoint_id(), checkpoint_id("1fffffff-ffff-6000-8000-000000000000")
    assert str(LateId(old, head)) > head > old


def test_a_successor_comes_after_an_id_that_was_seen(clock_went_back):
    first = LateId(checkpoint_id())
    seen = str(first)
    assert str(first.successor()) > seen == str(first)


def test_a_successor_of_an_id_that_nobody_has_seen_comes_after_what_that_one_followed(
    clock_went_back,
):
    head = checkpoint_id("1fffffff-ffff-6000-8000-000000000000")
    assert str(LateId(head).successor().successor()) > head


def test_all_who_ask_at_once_are_told_the_same_id(monkeypatch):
    both_ask = threading.Barrier(2)
    monkeypatch.setattr(ids, "checkpoint_id", lambda *_: f"made by {both_ask.wait()}")
    late, told = LateId(), []
    threads = [threading.Thread(target=lambda: told.append(str(late))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told[0] == told[1] == str(late)
