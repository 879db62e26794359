"""A filter finds the same items in every store: those that it finds in memory."""

from __future__ import annotations

import pytest

from milepost.errors import FilterError
from milepost.store.base import PutOp
from milepost.store.memory import InMemoryStore

NS = ("n",)
NUMBERS = [
    0, 1, -1, 1.5, -0.0, 0.1, 1e-7, 5e-324, 1e15, 1e16, 1e17, 9.3e18, 1e20, 1e22, 1e23, 1e29,
    1e30, -1e30, 1.0000000000000002e30, 1e308, 2.0**53, 2.0**60, 2.0**63, 2**53, 2**53 + 1, 2**60,
    2**63 - 1, 2**63, 2**64, 10**16, 10**23, 10**30, 10**30 + 1, -(10**30), int(1e30),
]  # fmt: skip
HUGE = 10**5000  # of more digits than the interpreter writes
OTHERS = [True, False, None, "1", "a", "x\0y", "1e+30", [1e30], {"deep": 1e30}, HUGE, -HUGE]
NAMES = ["f", "a\0b", "\0", "\ud800", "$x", "", "a b", "é", "1e+30", "google+"]


def items():
    for number, value in enumerate([*NUMBERS, *OTHERS]):
        yield f"v{number}", {"f": value}
    for number, name in enumerate(NAMES):
        yield f"n{number}", {name: 1, "o": {name: 2}}
    for number, key in enumerate([True, None, 7, 1.5, HUGE]):
        yield f"k{number}", {"f": {key: 1}, "s": "e+"}
        yield f"p{number}", {"f": {key: 1}, "s": "plain"}


def filters():
    for value in [*NUMBERS, *OTHERS]:
        yield {"f": {"$eq": value}}
        yield {"f": {"$ne": value}}
        yield {"f": {"$in": [value, 7]}}
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for operator in ("$gt", "$gte", "$lt", "$lte"):
                yield {"f": {operator: value}}
    for name in NAMES:
        yield {name: 1}
        yield {name: {"$exists": True}}
        yield {name: {"$gt": 0}}
        yield {name: {"$ne": 1}}
        yield {name: {"$eq": None}}
        yield {name: {"below": 1}}
        if not name.startswith("$"):
            yield {"o": {name: 2}}
    for key in ("true", "null", "7", "1.5"):
        yield {"f": {key: 1}}


def found(store, filter):
    return sorted(item.key for item in store.search(NS, filter=filter, limit=1000))


def test_whatever_the_numbers_and_the_names(stores):
    store, memory = stores.open(), InMemoryStore()
    puts = [PutOp(NS, key, value) for key, value in items()]
    store.batch(puts)
    memory.batch(puts)
    wrong = [filter for filter in filters() if found(store, filter) != found(memory, filter)]
    assert wrong == []


class TestWhatItFinds:
    @pytest.fixture(autouse=True)
    def _filled(self, stores):
        self.store = stores.open()
        self.store.batch([PutOp(NS, key, value) for key, value in items()])

    def test_a_float_is_the_integer_that_it_is_in_python(self):
        values = dict(items())
        for number in NUMBERS:
            same = sorted(
                key
                for key, value in values.items()
                if type(value.get("f")) in (int, float) and value["f"] == number
            )
            assert found(self.store, {"f": number}) == same

    @pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800"])
    def test_a_name_that_databases_cannot_hold(self, name):
        key = f"n{NAMES.index(name)}"
        assert found(self.store, {name: 1}) == [key]
        assert found(self.store, {"o": {name: 2}}) == [key]

    @pytest.mark.parametrize(("name", "why"), [("a.b\0", "period"), ("a.\ud800", "surrogate")])
    def test_one_that_cannot_be_looked_up_is_refused(self, name, why):
        with pytest.raises(FilterError, match=why):
            self.store.search(NS, filter={name: 1})
