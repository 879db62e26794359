"""How long a cache in memory keeps what it was given."""

from types import SimpleNamespace
from typing import Any

import pytest

from milepost.cache import memory
from milepost.cache.memory import InMemoryCache


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The cache's own time: `clock.now`."""
    clock = SimpleNamespace(now=1000.0)
    clock.time = lambda: clock.now
    monkeypatch.setattr(memory, "time", clock)
    return clock


def test_a_value_is_there_until_it_expires(clock):
    cache: Any = InMemoryCache()
    cache.set({(("n",), "short"): ("a", 10), (("n",), "long"): ("b", None)})
    wanted = [(("n",), "short"), (("n",), "long")]
    assert list(cache.get(wanted).values()) == ["a", "b"]
    clock.now += 10
    assert list(cache.get(wanted).values()) == ["b"]


def test_what_expired_does_not_stay_though_nobody_asks_for_it_again(clock):
    cache: Any = InMemoryCache()
    most = 0
    for n in range(5000):
        cache.set({(("n",), str(n)): ("x" * 100, 10)})
        clock.now += 1
        most = max(most, len(cache._entries))
    assert most <= 2 * memory._FEW
    assert cache.get([(("n",), "4999")])


def test_what_has_not_expired_is_never_dropped(clock):
    cache: Any = InMemoryCache()
    for n in range(2000):
        cache.set({(("n",), str(n)): (n, None if n % 2 else 1)})
        clock.now += 1
    kept = [(("n",), str(n)) for n in range(1, 2000, 2)]
    assert list(cache.get(kept).values()) == list(range(1, 2000, 2))


def test_a_namespace_is_cleared_and_the_others_stay():
    cache: Any = InMemoryCache()
    keys = [(("a",), "k"), (("b",), "k"), (("a", "b"), "k")]
    cache.set(dict.fromkeys(keys, ("x", None)))
    cache.clear([["a"]])
    assert list(cache.get(keys)) == keys[1:]
    assert cache.get([(["a", "b"], "k")]) == {keys[2]: "x"}
    cache.clear()
    assert cache.get(keys) == {}
