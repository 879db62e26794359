"""Items: what is put is what is got."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
import warnings

import pydantic
import pytest

from milepost.errors import (
    InvalidKeyError,
    SerializationError,
    ValueTooLargeError,
    VersionConflict,
)
from milepost.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from milepost.warnings import MilepostWarning

NS = ("1", "memories")


class Colour(enum.Enum):
    RED = "red"


class Note(pydantic.BaseModel):
    n: int


class TestPutAndGet:
    def test_an_item_has_what_the_documents_say(self, store):
        store.put(NS, "k", {"food_preference": "I like pizza"})
        item = store.get(NS, "k")
        assert type(item) is Item
        assert (item.value, item.key, item.namespace) == (
            {"food_preference": "I like pizza"},
            "k",
            NS,
        )
        assert item.created_at.tzinfo is not None
        assert item.created_at == item.updated_at

    def test_as_a_dict_it_is_ready_for_json(self, store):
        store.put(NS, "k", {"a": 1})
        item = store.get(NS, "k")
        assert item.dict() == {
            "namespace": ["1", "memories"],
            "key": "k",
            "value": {"a": 1},
            "created_at": item.created_at.isoformat(),
            "updated_at": item.updated_at.isoformat(),
        }

    def test_what_is_not_there_is_none(self, store):
        assert store.get(NS, "k") is None
        assert store.get((), "k") is None

    def test_a_second_put_replaces_the_value_and_keeps_the_time_of_the_first(self, store):
        store.put(NS, "k", {"a": 1})
        first = store.get(NS, "k")
        store.put(NS, "k", {"b": 2})
        second = store.get(NS, "k")
        assert second.value == {"b": 2}
        assert second.created_at == first.created_at
        assert second.updated_at > first.updated_at

    def test_delete_removes_it_and_is_content_if_it_is_not_there(self, store):
        store.put(NS, "k", {"a": 1})
        store.delete(NS, "k")
        store.delete(NS, "k")
        assert store.get(NS, "k") is None
        assert store.list_namespaces() == []

    def test_to_put_none_is_to_delete(self, store):
        store.put(NS, "k", {"a": 1})
        store.put(NS, "k", None)
        assert store.get(NS, "k") is None

    def test_a_number_or_uuid_as_key_becomes_text(self, store):
        key = uuid.uuid4()
        store.put(NS, key, {"a": 1})
        assert store.get(NS, str(key)).value == {"a": 1}
        assert store.get(NS, key).value == {"a": 1}


class TestValues:
    def test_come_back_with_their_types(self, store):
        value = {
            "when": dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
            "pair": (1, 2.5),
            "set": {1, 2},
            "bytes": b"\0\xff",
            "large": 2**70,
            "nested": {"list": [None, True, {"x": "ü\0"}]},
            "id": uuid.UUID(int=5),
        }
        store.put(NS, "k", value)
        assert store.get(NS, "k").value == value
        assert type(store.get(NS, "k").value["pair"]) is tuple

    def test_are_not_changed_by_what_a_program_does_later(self, store):
        value = {"list": [1]}
        store.put(NS, "k", value)
        value["list"].append(2)
        got = store.get(NS, "k").value
        got["list"].append(3)
        found = store.search(NS)[0].value
        found["list"].append(4)
        assert store.get(NS, "k").value == {"list": [1]}

    def test_that_could_not_be_read_back_are_refused_when_they_are_put(self, store):
        with pytest.raises(SerializationError, match="thing"):
            store.put(NS, "k", {"thing": object()})
        assert store.get(NS, "k") is None

    def test_must_be_a_dict(self, store):
        with pytest.raises(TypeError, match="dict"):
            store.put(NS, "k", [1])


class TestNamespaces:
    @pytest.mark.parametrize(
        "namespace",
        [(), ("",), ("a.b",), (1,), ("langgraph",), ("a", None), 5, ("a\0",), ("\ud800",)],
    )
    def test_that_no_item_can_have_are_refused(self, store, namespace):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {})

    @pytest.mark.parametrize("namespace", [("a.b",), ("",), (1,)])
    def test_are_checked_when_reading_too(self, store, namespace):
        with pytest.raises(InvalidNamespaceError):
            store.get(namespace, "k")
        with pytest.raises(InvalidNamespaceError):
            store.search(namespace)
        with pytest.raises(InvalidNamespaceError):
            store.delete(namespace, "k")
        with pytest.raises(InvalidNamespaceError):
            store.list_namespaces(prefix=namespace)

    def test_nothing_is_found_or_deleted_in_the_empty_one(self, store):
        store.put(NS, "k", {"n": 1})
        assert store.get((), "k") is None
        store.delete((), "k")
        assert store.batch([PutOp((), "k", None), GetOp(NS, "k")])[1].value == {"n": 1}
        with pytest.raises(VersionConflict):
            store.delete((), "k", if_version=1)

    def test_a_text_is_taken_letter_by_letter_with_a_warning(self, store):
        text = uuid.uuid4().hex  # another one each time: it is warned of once
        with pytest.warns(MilepostWarning, match=r"Write \(label,\)"):
            store.put(text, "k", {"n": 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert store.get(text, "k").namespace == tuple(text)
            assert [item.value for item in store.search(text[:9])] == [{"n": 1}]
            assert store.list_namespaces(suffix=text[9:]) == [tuple(text)]

    def test_a_text_is_refused_under_strict_rules(self, store, monkeypatch):
        monkeypatch.setenv("MILEPOST_STRICT", "1")
        with pytest.raises(InvalidNamespaceError, match=r"Write \(label,\)"):
            store.put("strict text", "k", {})

    @pytest.mark.parametrize("key", [bytearray(b"k"), ["k"], "a\0b", "\ud800"])
    def test_a_key_that_cannot_be_stored_is_refused(self, store, key):
        with pytest.raises(InvalidKeyError):
            store.put(NS, key, {})

    @pytest.mark.parametrize("key", [None, b"k", ("k",)])
    def test_a_key_that_is_no_text_is_taken_for_its_text(self, store, key, monkeypatch):
        with pytest.warns(MilepostWarning, match="A key is a string"):
            assert store.get(NS, key) is None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store.put(NS, key, {"n": 1})
            assert store.get(NS, key).key == str(key)
            store.delete(NS, key)
            assert store.get(NS, key) is None
        monkeypatch.setenv("MILEPOST_STRICT", "1")
        with pytest.raises(InvalidKeyError):
            store.put(NS, key, {})

    def test_a_batch_may_write_below_a_reserved_root(self, store):
        place = ("langgraph", "notes")
        with pytest.raises(InvalidNamespaceError):
            store.put(place, "k", {"n": 1})
        store.batch([PutOp(place, "k", {"n": 1})])
        assert store.get(place, "k").value == {"n": 1}
        store.delete(place, "k")
        assert store.search(place) == []
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp((), "k", {"n": 1})])

    def test_what_put_alone_refuses_is_a_valid_operation(self):
        validate_op_namespace(PutOp(("langgraph", "notes"), "k", {"n": 1}))
        with pytest.raises(InvalidNamespaceError):
            validate_op_namespace(PutOp(("a.b",), "k", {"n": 1}))

    @pytest.mark.parametrize("value", [Note(n=1), [("n", 1)]])
    def test_of_a_value_that_is_no_dict_what_dict_makes_of_it_is_stored(
        self, store, value, monkeypatch
    ):
        with pytest.warns(MilepostWarning, match="An item's value is a dict"):
            store.put(NS, "k", value)
        assert store.get(NS, "k").value == {"n": 1}
        monkeypatch.setenv("MILEPOST_STRICT", "1")
        with pytest.raises(TypeError, match="An item's value is a dict"):
            store.put(NS, "strict", value)

    @pytest.mark.parametrize("value", [5, "text", "", [1, 2], ["us", "de"], []])
    def test_a_value_of_which_there_is_no_dict_is_refused(self, store, value):
        with pytest.raises(TypeError, match=r"Wrap it: \{'value'"):
            store.put(NS, "k", value)

    @pytest.mark.parametrize("index", [True, "n"])
    def test_an_index_that_is_no_list_is_taken_with_a_warning(self, store, index):
        with pytest.warns(MilepostWarning, match="index is a list of paths"):
            store.put(NS, "k", {"n": "x"}, index=index)
        assert store.get(NS, "k").value == {"n": "x"}


class TestBatch:
    def test_gives_a_result_for_each_operation(self, store):
        store.put(NS, "a", {"n": 1})
        results = store.batch(
            [
                GetOp(NS, "a"),
                PutOp(NS, "b", {"n": 2}),
                GetOp(NS, "nowhere"),
                SearchOp(("1",)),
                ListNamespacesOp(),
            ]
        )
        assert results[0].value == {"n": 1}
        assert results[1:3] == [None, None]
        assert [type(found) for found in results[3]] == [SearchItem]
        assert results[4] == [NS]

    def test_reads_see_the_store_as_it_was(self, store):
        results = store.batch([PutOp(NS, "a", {"n": 1}), GetOp(NS, "a"), SearchOp(NS)])
        assert results == [None, None, []]
        assert store.get(NS, "a").value == {"n": 1}

    def test_of_several_writes_to_a_key_the_last_counts(self, store):
        store.batch([PutOp(NS, "a", {"n": 1}), PutOp(NS, "a", {"n": 2})])
        assert store.get(NS, "a").value == {"n": 2}
        store.batch([PutOp(NS, "a", {"n": 3}), PutOp(NS, "a", None)])
        assert store.get(NS, "a") is None

    def test_is_done_as_a_whole_or_not_at_all(self, store):
        with pytest.raises(VersionConflict):
            store.batch([PutOp(NS, "a", {"n": 1}), PutOp(NS, "b", {"n": 2}, if_version=7)])
        with pytest.raises(SerializationError):
            store.batch([PutOp(NS, "a", {"n": 1}), PutOp(NS, "b", {"n": object()})])
        assert store.search(NS) == []

    def test_many_gets_at_once(self, store):
        store.batch([PutOp(NS, str(n), {"n": n}) for n in range(50)])
        found = store.batch([GetOp(NS, str(n)) for n in range(60)])
        assert [item and item.value["n"] for item in found] == [*range(50), *[None] * 10]

    def test_of_nothing_is_nothing(self, store):
        assert store.batch([]) == []


class TestVersions:
    def test_grow_with_every_put(self, store):
        store.put(NS, "k", {})
        first = store.get(NS, "k").version
        store.put(NS, "k", {})
        assert store.get(NS, "k").version > first > 0
        assert store.search(NS)[0].version == store.get(NS, "k").version

    def test_a_lost_update_is_refused(self, store):
        store.put(NS, "k", {"n": 0})
        mine, yours = store.get(NS, "k"), store.get(NS, "k")
        store.put(NS, "k", {"n": 1}, if_version=mine.version)
        with pytest.raises(VersionConflict, match="put it with"):
            store.put(NS, "k", {"n": 2}, if_version=yours.version)
        assert store.get(NS, "k").value == {"n": 1}

    def test_0_means_that_there_must_be_no_item(self, store):
        store.put(NS, "k", {"n": 1}, if_version=0)
        with pytest.raises(VersionConflict):
            store.put(NS, "k", {"n": 2}, if_version=0)
        assert store.get(NS, "k").value == {"n": 1}

    def test_an_item_that_was_deleted_and_made_again_is_not_the_same(self, store):
        store.put(NS, "k", {"n": 1})
        old = store.get(NS, "k").version
        store.delete(NS, "k")
        with pytest.raises(VersionConflict):
            store.put(NS, "k", {"n": 2}, if_version=old)
        store.put(NS, "k", {"n": 3})
        with pytest.raises(VersionConflict):
            store.put(NS, "k", {"n": 4}, if_version=old)

    def test_of_two_conditional_puts_in_one_batch_to_one_key_none_is_done(self, store):
        with pytest.raises(VersionConflict):
            store.batch([PutOp(NS, "k", {}, if_version=0), PutOp(NS, "k", {}, if_version=0)])
        assert store.get(NS, "k") is None

    def test_delete_can_be_conditional_too(self, store):
        store.put(NS, "k", {})
        with pytest.raises(VersionConflict):
            store.delete(NS, "k", if_version=3)
        store.delete(NS, "k", if_version=store.get(NS, "k").version)
        assert store.get(NS, "k") is None


class TestStoreOfYourOwn:
    class Minimal(BaseStore):
        """Only what the contract asks for."""

        def __init__(self):
            self.ops = []

        def batch(self, ops):
            self.ops += list(ops)
            return [None] * len(self.ops)

        async def abatch(self, ops):
            return self.batch(ops)

    def test_needs_only_batch_and_abatch(self):
        store = self.Minimal()
        assert store.get(NS, "k") is None
        store.put(NS, "k", {"a": 1})
        assert store.ops == [GetOp(NS, "k", True), PutOp(NS, "k", {"a": 1})]

    def test_what_it_cannot_do_is_refused_not_ignored(self):
        store = self.Minimal()
        with pytest.raises(NotImplementedError, match="TTL"):
            store.put(NS, "k", {}, ttl=1)
        with pytest.raises(NotImplementedError, match="if_version"):
            store.put(NS, "k", {}, if_version=1)
        with pytest.raises(NotImplementedError, match="order"):
            store.search(NS, order="key")


class TestSize:
    def test_of_a_value_that_the_database_cannot_hold_is_said_before_it_is_sent(self, stores):
        if not stores.is_durable:
            pytest.skip("memory holds what there is room for")
        store = stores.open()
        core = store.store._core
        assert core.largest <= 2**30
        assert core.largest_view <= 2**30
        store.put(NS, "k", {"text": "short"})
        core.largest = 1000
        with pytest.raises(ValueTooLargeError, match=r"'k'.* 2,0\d\d bytes.* 1,000 at most"):
            store.put(NS, "k", {"text": "x" * 2000})
        core.largest, core.largest_view = 10**6, 1000
        if not core.makes_views:
            return
        with pytest.raises(ValueTooLargeError, match=r"JSON"):
            store.put(NS, "k", {"text": "é" * 600})
        store.put(NS, "k2", {"text": "x" * 600})
        assert store.get(NS, "k").value == {"text": "short"}

    def test_of_many_values_does_not_matter(self, stores, monkeypatch):
        if not stores.is_durable:
            pytest.skip("memory sends nothing")
        from milepost.store._sql import write as writing

        monkeypatch.setattr(writing, "_SENT_AT_ONCE", 1000)
        store = stores.open()
        store.batch([PutOp(NS, str(n), {"text": "x" * n}) for n in range(250)])
        assert len(store.search(NS, limit=1000)) == 250
