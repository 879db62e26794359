"""Search without meaning: prefixes, filters, order, pages, namespaces."""

from __future__ import annotations

import datetime as dt
import json
import math
import warnings

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import FilterError
from milepost.store._core.filters import holds, parse
from milepost.store._core.json_view import Viewer
from milepost.store.base import PutOp
from milepost.store.memory import InMemoryStore
from milepost.warnings import MilepostWarning

NS = ("alice", "memories")
HOSTILE = [
    "acme%",
    "acme_",
    "%",
    "_",
    "*",
    "a'; DROP TABLE milepost_items; --",
    '"quoted"',
    "back\\slash",
    "$.x",
    "a/b",
    "new\nline",
    "ünï",
    "日本",
    " ",
    "{0}",
    "%s",
    "?",
    "a-b",
]


def keys(items):
    return [item.key for item in items]


class TestPrefix:
    def test_matches_whole_labels(self, store):
        for namespace in [("acme",), ("acme", "x"), ("acme-corp",), ("acm",), ("acme2", "x")]:
            store.put(namespace, "/".join(namespace), {})
        assert sorted(keys(store.search(("acme",)))) == ["acme", "acme/x"]
        assert keys(store.search(("acm",))) == ["acm"]
        assert keys(store.search(("acme", "x"))) == ["acme/x"]
        assert len(store.search(())) == 5

    def test_hostile_names_are_literal(self, store):
        hostile = [name for name in HOSTILE if "." not in name]
        for name in hostile:
            store.put((name, "sub"), name, {"name": name})
        for name in hostile:
            assert keys(store.search((name,))) == [name]
            assert store.get((name, "sub"), name).value == {"name": name}
            if name != "*":
                assert store.list_namespaces(prefix=(name,)) == [(name, "sub")]
        assert len(store.list_namespaces(prefix=("*",))) == len(hostile)
        store.delete(("%", "sub"), "%")
        assert len(store.search((), limit=100)) == len(hostile) - 1

    def test_an_item_in_a_namespace_below_is_found_with_its_namespace(self, store):
        store.put(NS, "k", {})
        assert store.search(("alice",))[0].namespace == NS

    def test_finds_what_is_put_below_it_at_any_time(self, store):
        def found(**page):
            return keys(store.search(("a",), order="-updated_at", **page))

        for number in range(4):
            store.put(("a",), f"k{number}", {"even": number % 2 == 0})
        assert found(limit=2) == ["k3", "k2"]
        store.put(("a", "b"), "below", {"even": True})
        store.put(("ab",), "beside", {"even": True})
        assert found(limit=3) == ["below", "k3", "k2"]
        assert found(filter={"even": True}) == ["below", "k2", "k0"]
        store.delete(("a", "b"), "below")
        assert found() == ["k3", "k2", "k1", "k0"]
        assert found(filter={"even": True}, limit=1, offset=1) == ["k0"]


class TestFilter:
    VALUES = {
        "note": {"kind": "note", "stars": 5, "place": {"city": "Ulm", "zip": 89073}},
        "task": {"kind": "task", "stars": 3.5, "done": True, "tags": ["a", "b"]},
        "bare": {"stars": 0, "kind": None, "done": False, "a.b": 1},
        "deep": {"a": {"b": 1, "c": {"d": "x"}}, "stars": "many"},
    }

    @pytest.mark.parametrize(
        ("filter", "found"),
        [
            ({}, "bare deep note task"),
            ({"kind": "note"}, "note"),
            ({"kind": {"$eq": "note"}}, "note"),
            ({"kind": "note", "stars": 3.5}, ""),
            ({"kind": {"$ne": "note"}}, "bare deep task"),
            ({"kind": None}, "bare deep"),
            ({"kind": {"$ne": None}}, "note task"),
            ({"stars": 5}, "note"),
            ({"stars": 5.0}, "note"),
            ({"stars": "5"}, ""),
            ({"stars": {"$gt": 3}}, "note task"),
            ({"stars": {"$gte": 3.5, "$lt": 5}}, "task"),
            ({"stars": {"$lte": 0}}, "bare"),
            ({"stars": {"$gt": "a"}}, "deep"),
            ({"done": True}, "task"),
            ({"done": 1}, ""),
            ({"done": False}, "bare"),
            ({"stars": False}, ""),
            ({"kind": {"$in": ["note", "task", "other"]}}, "note task"),
            ({"kind": {"$in": [None]}}, "bare deep"),
            ({"kind": {"$in": []}}, ""),
            ({"kind": {"$in": [*range(33_000), "note"]}}, "note"),
            ({"tags": ["a", "b"]}, "task"),
            ({"tags": ["a"]}, ""),
            ({"tags": {"$in": [["a", "b"], 1]}}, "task"),
            ({"tags": {"$ne": ["a", "b"]}}, "bare deep note"),
            ({"kind": {"$exists": True}}, "bare note task"),
            ({"kind": {"$exists": False}}, "deep"),
            ({"place": {"city": "Ulm"}}, "note"),
            ({"place": {"city": {"$in": ["Ulm", "Bonn"]}, "zip": {"$gt": 1}}}, "note"),
            ({"place.city": "Ulm"}, "note"),
            ({"place": {"$eq": {"zip": 89073, "city": "Ulm"}}}, "note"),
            ({"place": {"$eq": {"city": "Ulm"}}}, ""),
            ({"a.b": 1}, "bare deep"),
            ({"a.b": {"$exists": True}}, "bare deep"),
            ({"a": {"c": {"d": "x"}}}, "deep"),
            ({"a": {"c.d": {"$gte": "x"}}}, "deep"),
            ({"a": {"x": {"$exists": False}}}, "deep"),
            ({"tags": {"0": "a"}}, ""),
            ({"kind": {"d": {"$exists": False}}}, ""),
        ],
    )
    def test_means_the_same_everywhere(self, store, filter, found):
        for key, value in self.VALUES.items():
            store.put(NS, key, value)
        assert sorted(keys(store.search((), filter=filter))) == found.split()

    @pytest.mark.parametrize(
        "filter",
        [
            {"x": {"$regex": "a"}},
            {"x": {"$gt": 1, "y": 2}},
            {"x": {"$gt": None}},
            {"x": {"$gt": [1]}},
            {"x": {"$exists": 1}},
            {"x": {"$in": "abc"}},
            {1: 2},
            {"x": {"$gt; DROP TABLE milepost_items": 1}},
        ],
    )
    def test_what_it_does_not_understand_is_refused(self, store, filter):
        with pytest.raises(FilterError):
            store.search(NS, filter=filter)

    def test_hostile_names_and_values_are_literal(self, store):
        for text in HOSTILE:
            store.put(NS, text, {text: {"in": text}, "v": text})
        for text in HOSTILE:
            assert keys(store.search(NS, filter={"v": text})) == [text]
            assert keys(store.search(NS, filter={text: {"in": text}})) == [text]
            assert keys(store.search(NS, filter={text: {"in": {"$gte": text}}})) == [text]
            assert len(store.search(NS, filter={"v": {"$ne": text}}, limit=100)) == 17
        injection = "x') = 1 OR 1=1 --"
        assert store.search(NS, filter={injection: 1}) == []
        assert store.search(NS, filter={"v": "' OR '1'='1"}) == []

    def test_sees_what_json_cannot_hold_by_equality(self, store):
        moment = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
        store.put(NS, "k", {"at": moment, "raw": b"x", "nul": "a\0b", "nan": float("nan")})
        assert keys(store.search(NS, filter={"at": moment})) == ["k"]
        assert keys(store.search(NS, filter={"raw": b"x", "nul": "a\0b"})) == ["k"]
        assert store.search(NS, filter={"at": moment + dt.timedelta(1)}) == []
        assert keys(store.search(NS, filter={"at": {"$exists": True}})) == ["k"]
        with pytest.raises(FilterError, match="isoformat"):
            store.search(NS, filter={"at": {"$gt": moment}})

    def test_what_json_cannot_hold_has_no_order(self, store):
        store.put(NS, "k", {"n": math.inf, "nan": math.nan, "nul": "a\0b", "pair": (1, 2)})
        store.put(NS, "plain", {"n": 1, "nan": 1.5, "nul": "ab", "pair": [1, 2]})
        assert keys(store.search(NS, filter={"n": {"$gt": 0}})) == ["plain"]
        assert keys(store.search(NS, filter={"nan": {"$lt": 2}})) == ["plain"]
        assert keys(store.search(NS, filter={"nul": {"$gte": "a"}})) == ["plain"]
        assert len(store.search(NS, filter={"pair": [1, 2]})) == 2

    def test_numbers_are_compared_with_the_ends_of_their_order(self, store):
        for key, n in (("a", -(2.0**80)), ("b", 0), ("c", 10**400), ("d", "text")):
            store.put(NS, key, {"n": n})
        for operator, ends in (("$lt", math.inf), ("$lte", math.inf), ("$gt", -math.inf)):
            assert sorted(keys(store.search(NS, filter={"n": {operator: ends}}))) == ["a", "b", "c"]
        for operator, ends in (("$gte", math.inf), ("$lt", -math.inf), ("$lt", math.nan)):
            assert store.search(NS, filter={"n": {operator: ends}}) == []

    def test_a_key_that_is_no_text_is_found_by_the_text_that_json_has_for_it(self, store):
        store.put(NS, "k", {"by": {7: "a", "x": {True: "b"}}})
        assert keys(store.search(NS, filter={"by": {"7": "a"}})) == ["k"]
        assert store.search(NS, filter={"by": {"8": "a"}}) == []

    def test_texts_are_equal_whatever_is_in_them(self, store):
        texts = [
            'a"b',
            "a\\b",
            "a\nb",
            "a\x7fb",
            "a\u2028b",
            "[1]",
            '{"v":"w"}',
            '"v":"w"',
            "é",
            "😀",
            "",
        ]
        for text in texts:
            store.put(NS, text or "empty", {"v": text, "in": {"v": "another"}})
        for text in texts:
            assert keys(store.search(NS, filter={"v": text})) == [text or "empty"]

    def test_large_numbers_compare_exactly(self, store):
        store.put(NS, "k", {"n": 2**62 + 1, "huge": 2**80})
        assert keys(store.search(NS, filter={"n": 2**62 + 1})) == ["k"]
        assert store.search(NS, filter={"n": 2**62}) == []
        assert keys(store.search(NS, filter={"n": {"$gt": 2**62}})) == ["k"]
        assert keys(store.search(NS, filter={"huge": {"$gt": 2**63 - 1}})) == ["k"]
        assert keys(store.search(NS, filter={"huge": 2**80})) == ["k"]


names = st.sampled_from(["a", "b", "a.b", "c d", "0", '"', "$x", "é"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 1)),
    st.sampled_from(["", "a", "b", "é", "a'b", '"', "0", "\\"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(names, inner, max_size=2)),
    max_leaves=4,
)
filters = st.dictionaries(
    names.filter(lambda name: not name.startswith("$")),
    st.one_of(
        scalars,
        st.lists(scalars, max_size=2),
        st.dictionaries(names.filter(lambda name: not name.startswith("$")), scalars, max_size=2),
        st.fixed_dictionaries({"$ne": values}),
        st.fixed_dictionaries({"$eq": values}),
        st.fixed_dictionaries({"$in": st.lists(values, max_size=3)}),
        st.fixed_dictionaries({"$exists": st.booleans()}),
        st.fixed_dictionaries(
            {
                "$gt": st.one_of(st.integers(-3, 3), st.sampled_from(["", "a", "é"])),
                "$lte": st.one_of(st.floats(-2, 2, allow_nan=False), st.sampled_from(["b", "z"])),
            }
        ),
    ),
    min_size=1,
    max_size=2,
)


class TestFilterInSql:
    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(st.dictionaries(names, values, max_size=3), max_size=4), filters)
    def test_finds_what_the_definition_says(self, stores, documents, filter):
        store = stores.open() if not hasattr(stores, "shared") else stores.shared
        stores.shared = store
        for item in store.search(("p",), limit=100):
            store.delete(item.namespace, item.key)
        for number, document in enumerate(documents):
            store.put(("p",), str(number), document)
        viewer = Viewer(JsonPlusSerializer(), None)
        conditions = parse(filter, viewer)
        expected = [
            str(number)
            for number, document in enumerate(documents)
            if all(holds(one, json.loads(viewer.text(document))) for one in conditions)
        ]
        assert sorted(keys(store.search(("p",), filter=filter, limit=100))) == expected


class TestOrder:
    def fill(self, store):
        for key in ["b", "c", "a"]:
            store.put(NS, key, {})
        store.put(("alice", "other"), "d", {})
        store.put(NS, "b", {"again": True})

    def test_by_default_is_the_backends_own(self, stores):
        store = stores.open()
        self.fill(store)
        found = keys(store.search(("alice",)))
        if stores.backend == "memory":
            assert found == ["b", "c", "a", "d"]
        else:
            assert found == ["b", "d", "a", "c"]

    @pytest.mark.parametrize(
        ("order", "found"),
        [
            ("created_at", "bcad"),
            ("-created_at", "dacb"),
            ("updated_at", "cadb"),
            ("-updated_at", "bdac"),
            ("key", "abcd"),
            ("-key", "dcba"),
        ],
    )
    def test_can_be_the_same_everywhere(self, store, order, found):
        self.fill(store)
        assert "".join(keys(store.search(("alice",), order=order))) == found

    def test_an_unknown_one_is_refused(self, store):
        with pytest.raises(ValueError, match="created_at"):
            store.search(NS, order="random(); --")

    @pytest.mark.parametrize("order", [None, "created_at", "-updated_at", "key"])
    def test_pages_are_stable_and_complete(self, store, order, clock):
        for number in range(23):
            store.put(("p", f"n{number % 3}"), f"k{number:02}", {})
        pages = [
            keys(store.search(("p",), limit=5, offset=offset, order=order))
            for offset in range(0, 30, 5)
        ]
        assert [len(page) for page in pages] == [5, 5, 5, 5, 3, 0]
        together = [key for page in pages for key in page]
        assert together == keys(store.search(("p",), limit=100, order=order))
        assert len(set(together)) == 23

    def test_pages_are_stable_even_if_the_clock_stands_still(self, stores, clock):
        store = stores.open(clock=clock)
        for number in range(12):
            store.put(NS, f"k{number:02}", {})
        found = [keys(store.search(NS, limit=1, offset=offset))[0] for offset in range(12)]
        assert sorted(found) == [f"k{number:02}" for number in range(12)]

    def test_a_negative_limit_is_none_and_a_negative_offset_is_0(self, store, monkeypatch):
        for number in range(12):
            store.put(NS, f"k{number}", {})
        with pytest.warns(MilepostWarning, match="limit is a number from 0 on, not -1"):
            assert len(store.search(NS, limit=-1)) == 12
        with pytest.warns(MilepostWarning, match="offset is a number from 0 on"):
            assert store.list_namespaces(offset=-1) == [NS]
        with pytest.warns(MilepostWarning, match="max_depth"):
            assert store.list_namespaces(max_depth=-1) == [()]
        monkeypatch.setenv("MILEPOST_STRICT", "1")
        with pytest.raises(ValueError, match="limit is a number from 0 on"):
            store.search(NS, limit=-1)
        with pytest.raises(ValueError, match="max_depth"):
            store.list_namespaces(max_depth=-1)

    def test_a_limit_that_some_database_takes_is_taken_by_all(self, store):
        store.batch([PutOp(NS, f"k{number}", {"n": number}) for number in range(4)])
        assert store.search(NS, offset=10**20) == []
        quiet = {10**20: 4, numpy.int64(2): 2}
        told = {None: 4, float("inf"): 4, "3": 3, "-3": 4, 3.0: 3}
        for limit, count in (quiet | told).items():
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                assert len(store.search(NS, limit=limit)) == count
                assert len(store.search(NS, limit=limit, filter={"n": {"$gte": 0}})) == count
                assert store.list_namespaces(limit=limit) == [NS]
            assert bool(seen) is (limit in told)
        for limit in ("many", float("nan"), [3]):
            with pytest.raises(TypeError, match="limit is a number, not"):
                store.search(NS, limit=limit)

    def test_ten_are_returned_unless_told_otherwise(self, store):
        for number in range(12):
            store.put(NS, str(number), {})
        assert len(store.search(NS)) == 10
        assert store.search(NS, limit=0) == []


class TestListNamespaces:
    @pytest.fixture
    def filled(self, store):
        for namespace in [("a", "b", "c"), ("a", "b", "d"), ("b", "b"), ("x",), ("a-b", "b")]:
            store.put(namespace, "k", {})
            store.put(namespace, "l", {})
        return store

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({}, ["a b c", "a b d", "a-b b", "b b", "x"]),
            ({"prefix": ("a",)}, ["a b c", "a b d"]),
            ({"prefix": ("a", "*")}, ["a b c", "a b d"]),
            ({"prefix": ("*", "b")}, ["a b c", "a b d", "a-b b", "b b"]),
            ({"prefix": ("*", "*", "d")}, ["a b d"]),
            ({"suffix": ("b",)}, ["a-b b", "b b"]),
            ({"suffix": ("*",)}, ["a b c", "a b d", "a-b b", "b b", "x"]),
            ({"suffix": ("b", "*")}, ["a b c", "a b d", "b b"]),
            ({"prefix": ("a",), "suffix": ("c",)}, ["a b c"]),
            ({"prefix": ("a", "b", "c", "d")}, []),
            ({"max_depth": 2}, ["a b", "a-b b", "b b", "x"]),
            ({"max_depth": 1}, ["a", "a-b", "b", "x"]),
            ({"max_depth": 2, "limit": 2, "offset": 1}, ["a-b b", "b b"]),
            ({"prefix": (), "suffix": ()}, ["a b c", "a b d", "a-b b", "b b", "x"]),
        ],
    )
    def test_finds_namespaces_by_prefix_suffix_and_depth(self, filled, wanted, found):
        assert [" ".join(namespace) for namespace in filled.list_namespaces(**wanted)] == found

    def test_an_empty_one_is_gone(self, filled):
        filled.delete(("x",), "k")
        assert ("x",) in filled.list_namespaces()
        filled.delete(("x",), "l")
        assert ("x",) not in filled.list_namespaces()


def test_every_store_offers_the_same_settings_and_keeps_to_them(stores, clock):
    store = stores.open(
        index={"embed": _on_a_circle, "dims": 2, "fields": ["n"]},
        ttl={"default_ttl": 10},
        serde=EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16),
        clear_fields=["kind"],
        clock=clock,
    )
    for number in range(3):
        store.put(
            NS, f"k{number}", {"n": str(number), "kind": "even" if number % 2 == 0 else "odd"}
        )
    assert store.get(NS, "k0").created_at.timestamp() == clock.seconds
    assert keys(store.search(NS, query="1", limit=1)) == ["k1"]
    assert keys(store.search(NS, filter={"kind": "odd"})) == ["k1"]
    with pytest.raises(FilterError, match="clear_fields"):
        store.search(NS, filter={"n": "1"})
    clock.pass_minutes(11)
    assert store.search(NS) == []


@pytest.fixture
def everything_is_wide(monkeypatch):
    """Databases go about wide prefixes in another way; let that begin at three items."""
    monkeypatch.setattr("milepost.store._sql.read.WIDE", 3)


@pytest.mark.usefixtures("everything_is_wide")
class TestWidePrefixes:
    def test_are_searched_with_the_same_results(self, store):
        peer = InMemoryStore()
        for number in range(40):
            namespace = ("wide", f"u{number % 3}") if number % 2 else ("other",)
            for one in (store, peer):
                one.put(namespace, f"k{number}", {"n": number, "even": number % 4 == 1})
        for number in (7, 1, 12):
            for one in (store, peer):
                one.put(("wide", "u0"), f"k{number}", {"n": number, "even": True})
        rare = {"n": {"$lt": 4}}
        for filter in (None, {"even": True}, rare, {"n": {"$gt": 30}}, {"n": -1}):
            for prefix in (("wide",), ("wide", "u0"), (), ("none",)):
                for limit, offset in ((2, 0), (3, 2), (100, 0), (0, 0)):
                    page = {"filter": filter, "limit": limit, "offset": offset}
                    found = store.search(prefix, order="-updated_at", **page)
                    assert keys(found) == keys(peer.search(prefix, order="-updated_at", **page))

    def test_are_searched_by_meaning_with_the_same_results(self, stores):
        store = stores.open(index={"embed": _on_a_circle, "dims": 2, "fields": ["n"]})
        for number in range(60):
            namespace = ("wide", f"u{number % 3}") if number % 2 else ("other",)
            store.put(namespace, f"k{number}", {"n": str(number), "even": number % 4 == 1})
        near = {
            None: [31, 29, 33, 27],
            "even": [29, 33, 25, 37],
        }
        for name, numbers in near.items():
            filter = None if name is None else {name: True}
            found = store.search(("wide",), query="30.2", filter=filter, limit=4)
            assert keys(found) == [f"k{number}" for number in numbers]
        found = store.search(("wide", "u1"), query="30.2", limit=2, offset=1)
        assert keys(found) == ["k25", "k37"]


def _on_a_circle(texts):
    return [[math.cos(float(text) / 20), math.sin(float(text) / 20)] for text in texts]
