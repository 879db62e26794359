"""Search by meaning."""

from __future__ import annotations

import builtins
import copy
import importlib
import math
import sqlite3
import sys
from collections import UserDict
from types import MappingProxyType

import pytest
from embedders import AsyncModel, AsyncObjectModel, Model, ObjectModel

from milepost.errors import (
    ColourError,
    EmbeddingError,
    IndexMismatchError,
    MissingDependencyError,
)
from milepost.store._vectors.embeddings import ensure_embeddings
from milepost.store.base import PutOp, get_text_at_path, tokenize_path
from milepost.store.memory import InMemoryStore
from milepost.warnings import MilepostWarning

NS = ("1", "memories")


def keys(items):
    return [item.key for item in items]


def index(embed=None, dims=3, **more):
    return {"embed": embed or Model(dims), "dims": dims, **more}


def keys_of_meaning(store):
    store.put(NS, "a", {"text": "a"})
    return keys(store.search(NS, query="a"))


class TestRanking:
    def test_the_nearest_comes_first_with_a_score(self, stores):
        store = stores.open(index=index())
        store.put(NS, "a", {"text": "aaa"})
        store.put(NS, "b", {"text": "bb"})
        store.put(NS, "ab", {"text": "ab"})
        found = store.search(NS, query="aaaa")
        assert keys(found) == ["a", "ab", "b"]
        scores = [item.score for item in found]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(1, abs=1e-4)
        assert scores[1] == pytest.approx(math.sqrt(0.5), abs=1e-2)
        assert found[0].dict()["score"] == scores[0]

    def test_without_a_query_there_is_no_score(self, stores):
        store = stores.open(index=index())
        store.put(NS, "a", {"text": "aaa"})
        assert [item.score for item in store.search(NS)] == [None]
        assert [item.score for item in store.search(NS, query="")] == [None]

    def test_without_an_index_the_query_is_ignored(self, store):
        store.put(NS, "a", {"text": "aaa"})
        assert [(item.key, item.score) for item in store.search(NS, query="x")] == [("a", None)]

    def test_keeps_to_the_prefix(self, stores):
        store = stores.open(index=index())
        store.put(("acme",), "in", {"text": "b"})
        store.put(("acme-corp",), "out", {"text": "a"})
        assert keys(store.search(("acme",), query="a")) == ["in"]

    def test_filter_and_query_give_as_many_as_there_are(self, stores):
        store = stores.open(index=index(fields=["text"]))
        for number in range(60):
            kind = "rare" if number % 10 == 0 else "common"
            store.put(NS, f"{number:02}", {"text": "a" * 60 + "b" * number, "kind": kind})
        rare = store.search(NS, query="a", filter={"kind": "rare"}, limit=4)
        assert keys(rare) == ["00", "10", "20", "30"]
        assert len(store.search(NS, query="b", filter={"kind": "rare"}, limit=50)) == 6
        assert len(store.search((), query="b", limit=50)) == 50

    def test_pages_are_stable_and_complete(self, stores):
        store = stores.open(index=index())
        for number in range(12):
            store.put(NS, f"{number:02}", {"text": "a" * (number % 4)})
        pages = [keys(store.search((), query="a", limit=5, offset=at)) for at in (0, 5, 10)]
        assert [len(page) for page in pages] == [5, 5, 2]
        assert len({key for page in pages for key in page}) == 12

    def test_an_update_and_a_delete_are_seen_at_once(self, stores):
        store = stores.open(index=index())
        store.put(NS, "x", {"text": "aaa"})
        store.put(NS, "y", {"text": "bbb"})
        assert keys(store.search(NS, query="a", limit=1)) == ["x"]
        store.put(NS, "x", {"text": "ccc"})
        store.put(NS, "y", {"text": "aab"})
        assert keys(store.search(NS, query="a", limit=1)) == ["y"]
        assert len(store.search((), query="a")) == 2
        store.delete(NS, "y")
        assert keys(store.search((), query="a")) == ["x"]

    def test_a_vector_that_has_not_changed_stays_where_it_is(self, stores):
        if not stores.has_sql:
            pytest.skip("there is no table to look into")
        store = stores.open(index=index())
        vectors = "SELECT id, item FROM milepost_vectors_1 ORDER BY id"
        store.put(NS, "x", {"text": "a", "seen": 1})
        before = stores.rows(vectors)
        store.put(NS, "x", {"text": "a", "seen": 2})
        assert stores.rows(vectors) == before
        assert store.search(NS, query="a")[0].value["seen"] == 2
        store.put(NS, "x", {"text": "b", "seen": 3})
        changed = stores.rows(vectors)
        assert len(changed) == 1
        assert changed != before
        store.put(NS, "x", {"text": "b", "seen": 4}, index=["text", "more"])
        assert stores.rows(vectors) == changed
        store.put(NS, "x", {"text": "b", "more": "c"}, index=["text", "more"])
        assert len(stores.rows(vectors)) == 2
        store.put(NS, "x", {"text": "b"}, index=False)
        assert stores.rows(vectors) == []
        assert store.search(NS, query="b") == []

    def test_an_expired_item_is_not_found(self, stores, clock):
        store = stores.open(index=index(), clock=clock)
        store.put(NS, "x", {"text": "aaa"}, ttl=1)
        store.put(NS, "y", {"text": "b"})
        clock.pass_minutes(2)
        assert keys(store.search((), query="a", limit=1)) == ["y"]
        store.sweep_ttl()
        assert keys(store.search((), query="a", limit=1)) == ["y"]

    def test_another_process_sees_what_this_one_puts(self, stores):
        if not stores.is_durable:
            pytest.skip("memory is one process's")
        mine, yours = stores.open(index=index()), stores.open(index=index())
        mine.put(NS, "x", {"text": "ab"})
        assert keys(yours.search((), query="a")) == ["x"]
        yours.put(NS, "y", {"text": "a"})
        mine.delete(NS, "x")
        assert keys(yours.search((), query="a")) == ["y"]
        assert keys(mine.search((), query="a")) == ["y"]

    def test_many_updates_do_not_confuse_it(self, stores):
        store = stores.open(index=index())
        store.put(NS, "still", {"text": "ab"})
        for start in range(0, 3000, 500):
            store.batch(
                [PutOp(NS, str(n % 50), {"text": "a" * n}) for n in range(start, start + 50)]
            )
            found = store.search((), query="a", limit=100)
            assert len(found) == 51
            assert found[-1].key == "still" or start == 0


class TestFields:
    def test_what_is_embedded_is_the_whole_value_unless_fields_say_otherwise(self, stores):
        model = Model()
        stores.open(index=index(model)).put(NS, "k", {"z": 1, "a": "x"})
        assert model.calls == [['{"a": "x", "z": 1}']]

    def test_fields_are_paths(self, stores):
        model = Model()
        store = stores.open(index=index(model, fields=["title", "parts[*].text"]))
        store.put(NS, "k", {"title": "t", "parts": [{"text": "p"}, {"text": "q"}], "other": "o"})
        assert model.calls == [["t", "p", "q"]]

    def test_a_put_can_name_its_own(self, stores):
        model = Model()
        store = stores.open(index=index(model, fields=["memory"]))
        store.put(NS, "k", {"memory": "m", "context": "c"}, index=["context"])
        assert model.calls == [["c"]]

    def test_with_false_it_can_be_retrieved_but_is_never_ranked(self, stores):
        model = Model()
        store = stores.open(index=index(model))
        store.put(NS, "silent", {"text": "aaa"}, index=False)
        store.put(NS, "loud", {"text": "bbb"})
        assert len(model.calls) == 1
        assert keys(store.search(NS, query="a")) == ["loud"]
        assert sorted(keys(store.search(NS))) == ["loud", "silent"]
        assert keys(store.search(NS, filter={"text": "aaa"})) == ["silent"]
        store.put(NS, "loud", {"text": "bbb"}, index=False)
        assert store.search(NS, query="a") == []

    def test_the_best_of_several_texts_counts_and_the_item_comes_once(self, stores):
        store = stores.open(index=index(fields=["parts[*]"]))
        store.put(NS, "many", {"parts": ["a", "b", "c", "aab", "abb", "bc"]})
        store.put(NS, "one", {"parts": ["ab"]})
        store.put(NS, "two", {"parts": ["c", "bbbc"]})
        assert keys(store.search((), query="a", limit=3)) == ["many", "one", "two"]
        assert keys(store.search((), query="a", limit=1, offset=1)) == ["one"]
        assert keys(store.search(NS, query="b", limit=1)) == ["many"]

    def test_a_path_that_leads_nowhere_embeds_nothing(self, stores):
        model = Model()
        store = stores.open(index=index(model, fields=["nowhere"]))
        store.put(NS, "k", {"text": "a"})
        assert model.calls == []
        assert store.search(NS, query="a") == []

    def test_an_index_that_is_a_text_is_taken_for_one_path(self, stores):
        store = stores.open(index=index())
        with pytest.warns(MilepostWarning, match="list of paths"):
            store.put(NS, "k", {"text": "a", "other": "b"}, index="other")
        assert [item.score for item in store.search(NS, query="b")] == [pytest.approx(1)]


def test_a_copy_of_a_store_in_memory_has_items_and_vectors_of_its_own():
    store = InMemoryStore(index=index())
    store.put(NS, "a", {"text": "a"})
    twin = copy.deepcopy(store)
    twin.put(NS, "b", {"text": "b"})
    store.delete(NS, "a")
    assert store.search(NS, query="a") == []
    assert [item.key for item in twin.search(NS, query="a")] == ["a", "b"]


class TestPaths:
    VALUE = {"a": {"b": [{"c": "x"}, {"c": "y"}]}, "s": "str", "n": 3, "l": ["p", "q"], "e": None}

    @pytest.mark.parametrize(
        ("path", "texts"),
        [
            ("a.b[*].c", ["x", "y"]),
            ("a.b[0].c", ["x"]),
            ("a.b[-1].c", ["y"]),
            ("l[*]", ["p", "q"]),
            ("l", ['["p", "q"]']),
            ("l[9]", []),
            ("n", ["3"]),
            ("e", []),
            ("s.x", []),
            ("zz", []),
            ("{s,n}", ["str", "3"]),
            ("a.*", ['[{"c": "x"}, {"c": "y"}]']),
        ],
    )
    def test_lead_to_texts(self, path, texts):
        assert get_text_at_path(self.VALUE, path) == texts

    def test_dollar_is_the_whole(self):
        assert get_text_at_path({"b": 1, "a": "x"}, "$") == ['{"a": "x", "b": 1}']

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"b": 1, 2: "x"}, '{"2": "x", "b": 1}'),
            ({"k": [{(1, 2): None}]}, '{"k": [{"(1, 2)": null}]}'),
            ({"n": 10**5000}, '{"n": "int of many digits"}'),
            (UserDict(a=MappingProxyType({"b": 1})), '{"a": {"b": 1}}'),
        ],
    )
    def test_lead_to_a_text_whatever_the_names_and_numbers(self, value, text):
        assert get_text_at_path(value, "$") == [text]

    def test_are_made_of_steps(self):
        assert tokenize_path("a.b[*].c") == ["a", "b", "[*]", "c"]


class TestEmbed:
    @pytest.mark.parametrize("model", [Model, ObjectModel, AsyncModel, AsyncObjectModel])
    def test_may_be_a_function_or_an_object_of_either_colour(self, stores, model):
        store = stores.open(index=index(model()))
        store.put(NS, "a", {"text": "a"})
        store.put(NS, "b", {"text": "b"})
        assert keys(store.search(NS, query="b")) == ["b", "a"]

    def test_an_async_one_cannot_be_waited_for_in_sync_code_on_a_loop(self):
        import asyncio

        store = InMemoryStore(index=index(AsyncModel()))

        async def play():
            with pytest.raises(ColourError, match="aput"):
                store.put(NS, "a", {"text": "a"})

        asyncio.run(play())

    def test_by_name_needs_langchain(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "langchain", None)
        monkeypatch.setitem(sys.modules, "langchain.embeddings", None)
        with pytest.raises(MissingDependencyError, match="pip install langchain"):
            InMemoryStore(index={"embed": "openai:text-embedding-3-small", "dims": 3})

    def test_by_name_asks_langchain(self, monkeypatch):
        import types

        asked = []
        module = types.ModuleType("langchain.embeddings")
        module.init_embeddings = lambda name: asked.append(name) or ObjectModel()
        monkeypatch.setitem(sys.modules, "langchain", types.ModuleType("langchain"))
        monkeypatch.setitem(sys.modules, "langchain.embeddings", module)
        store = InMemoryStore(index={"embed": "openai:small", "dims": 3})
        store.put(NS, "a", {"text": "a"})
        assert asked == ["openai:small"]
        assert keys(store.search(NS, query="a")) == ["a"]

    @pytest.mark.parametrize(
        ("answer", "hint"),
        [
            ([], "one for each"),
            ([[1.0, float("nan"), 2.0]], "NaN"),
            ([[1.0, 1e39, 2.0]], "32-bit"),
            ([[1.0, "x", 2.0]], "32-bit"),
        ],
    )
    def test_a_wrong_answer_is_refused_and_nothing_is_stored(self, stores, answer, hint):
        store = stores.open(index={"embed": lambda texts: answer, "dims": 3, "model": "m"})
        with pytest.raises(EmbeddingError, match=hint):
            store.put(NS, "a", {"text": "a"})
        assert store.get(NS, "a") is None

    @pytest.mark.parametrize("wrong", [{"dims": 3}, {**index(), "filds": []}])
    def test_an_index_must_be_complete(self, stores, wrong):
        with pytest.raises(ValueError, match=r"index|dims"):
            stores.open(index=wrong)

    @pytest.mark.parametrize("wrong", [{"embed": Model()}, index(dims=0)])
    def test_a_database_needs_the_length_of_vectors(self, stores, wrong):
        if stores.backend == "memory":
            assert keys_of_meaning(stores.open(index=wrong)) == ["a"]
        else:
            with pytest.raises(ValueError, match="dims"):
                stores.open(index=wrong)

    def test_a_vector_of_another_length_is_refused_where_lengths_are_kept(self, stores):
        store = stores.open(index={"embed": lambda _: [[1.0, 2.0]], "dims": 3, "model": "m"})
        if stores.backend == "memory":
            with pytest.warns(MilepostWarning, match="the model's length counts"):
                assert keys_of_meaning(store) == ["a"]
        else:
            with pytest.raises(EmbeddingError, match="dims"):
                store.put(NS, "a", {"text": "a"})
            assert store.get(NS, "a") is None

    def test_in_memory_too_all_vectors_have_one_length(self):
        length = 2
        store = InMemoryStore(index={"embed": lambda found: [[1.0] * length] * len(found)})
        assert store.search(NS, query="a") == []
        store.put(NS, "a", {"text": "a"})
        length = 3
        with pytest.raises(EmbeddingError, match="dims"):
            store.put(NS, "b", {"text": "b"})
        length = 2
        assert keys(store.search(NS, query="a")) == ["a"]

    def test_a_function_can_have_the_face_of_an_object(self):
        assert ensure_embeddings(Model()).embed_query("a") == [1.0, 0.0, 0.01]

    def test_a_vector_of_zeros_is_far_from_everything(self, stores):
        store = stores.open(
            index={"embed": lambda texts: [[0.0, 0.0] for _ in texts], "dims": 2, "model": "zero"}
        )
        store.put(NS, "a", {"text": "a"})
        assert [(item.key, item.score) for item in store.search(NS, query="x")] == [("a", 0.0)]


class TestMissingParts:
    def without(self, monkeypatch, *names):
        real = builtins.__import__

        def guarded(name, *args, **kwargs):
            if name.partition(".")[0] in names:
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", guarded)

    def test_without_numpy_an_index_is_refused_and_a_plain_store_is_not(self, monkeypatch):
        self.without(monkeypatch, "numpy")
        with pytest.raises(MissingDependencyError, match="pip install 'milepost"):
            InMemoryStore(index=index())
        InMemoryStore()

    def test_without_numpy_and_sqlite_vec_an_index_is_refused_and_a_plain_store_is_not(
        self, monkeypatch
    ):
        from milepost.store.sqlite import SqliteStore

        self.without(monkeypatch, "numpy", "sqlite_vec")
        with (
            pytest.raises(MissingDependencyError, match="pip install 'milepost"),
            SqliteStore.from_conn_string(":memory:", index=index()),
        ):
            pass
        with SqliteStore.from_conn_string(":memory:") as store:
            store.put(NS, "k", {})

    def test_without_psycopg_the_import_says_what_to_install(self, monkeypatch):
        self.without(monkeypatch, "psycopg")
        for name in [name for name in sys.modules if name.startswith("milepost.")]:
            if "postgres" in name:
                monkeypatch.delitem(sys.modules, name)
        with pytest.raises(MissingDependencyError, match="pip install"):
            importlib.import_module("milepost.store.postgres")

    def test_without_pgvector_the_error_says_what_to_create(self):
        from milepost.errors import SaverError
        from milepost.store._vectors.postgres import PgVectors

        error = SaverError('PostgreSQL: extension "vector" is not available.')
        assert isinstance(PgVectors().explain(error), MissingDependencyError)
        assert "CREATE EXTENSION vector" in str(PgVectors().explain(error))


class TestWhatAModelReturns:
    """Whatever it is: an error that says what is wrong, and nothing is stored."""

    @pytest.mark.parametrize(
        ("returned", "why"),
        [
            (None, "2 texts and returned None"),
            ({"a": [1.0] * 3, "b": [1.0] * 3}, "returned a dict"),
            ("ab", "returned a str"),
            (7, "returned a int"),
            ([[1.0] * 3], "2 texts and returned 1"),
            ([[1.0] * 3, None], "returned None in place of a vector"),
            ([[1.0] * 3, 7.0], "returned a float in place of a vector"),
            ([[1.0] * 3, "abc"], "returned a str in place of a vector"),
            ([[1.0] * 3, [1.0, None, 2.0]], "not of 32-bit floats"),
            ([[1.0] * 3, [1.0]], "length 1"),
        ],
    )
    def test_that_is_not_vectors_is_refused(self, stores, returned, why):
        store = stores.open(index=index(lambda texts: returned, fields=["text", "more"]))
        with pytest.raises(EmbeddingError, match=why):
            store.put(NS, "k", {"text": "a", "more": "b"})
        assert store.get(NS, "k") is None

    @pytest.mark.parametrize("kind", ["function", "async function", "object", "async object"])
    def test_a_model_may_change_the_list_that_it_is_given(self, stores, kind):
        def emptying(texts):
            made = [Model().vector(text) for text in texts]
            texts.clear()
            return made

        async def aemptying(texts):
            return emptying(texts)

        class Emptying:
            embed_documents = staticmethod(emptying)
            embed_query = Model().vector

        class AsyncEmptying(Emptying):
            aembed_documents = staticmethod(aemptying)

        models = {
            "function": emptying,
            "async function": aemptying,
            "object": Emptying(),
            "async object": AsyncEmptying(),
        }
        store = stores.open(index=index(models[kind], fields=["text"]))
        store.batch([PutOp(NS, key, {"text": key * 3}) for key in "ab"])
        assert keys(store.search(NS, query="b", limit=1)) == ["b"]
        store.reindex()
        assert keys(store.search(NS, query="a", limit=1)) == ["a"]


class TestReindex:
    def fill(self, stores):
        store = stores.open(index=index(fields=["text"]))
        for number in range(25):
            store.put(NS, f"{number:02}", {"text": "a" * number + "b"})
        store.put(NS, "own", {"text": "a", "title": "bbbb"}, index=["title"])
        store.put(NS, "silent", {"text": "bbbb"}, index=False)
        return store

    def test_makes_all_vectors_anew_with_progress(self, stores):
        store = self.fill(stores)
        seen = []
        done = store.reindex(progress=lambda done, total: seen.append((done, total)), batch_size=10)
        assert done == 27
        assert seen == [(10, 27), (20, 27), (27, 27)]
        found = keys(store.search(NS, query="b", limit=50))
        assert len(found) == 26
        assert set(found[:2]) == {"00", "own"}
        assert "silent" not in found

    @pytest.mark.parametrize("size", [0, -1])
    def test_a_batch_has_one_item_at_least(self, stores, size):
        store = self.fill(stores)
        seen = []
        assert store.reindex(progress=lambda *counts: seen.append(counts), batch_size=size) == 27
        assert len(seen) == 27

    def test_a_change_of_the_model_or_its_dims_is_noticed(self, stores):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        self.fill(stores)
        for other in (index(dims=4, fields=["text"]), index(ObjectModel(), fields=["text"])):
            store = stores.open(index=other)
            with pytest.raises(IndexMismatchError, match="reindex"):
                store.search(NS, query="b")
            with pytest.raises(IndexMismatchError, match="reindex"):
                store.put(NS, "new", {"text": "b"})
            assert store.get(NS, "new") is None
            assert store.get(NS, "00").value == {"text": "b"}
            store.put(NS, "plain", {"text": "b"}, index=False)

    def test_after_it_the_new_model_is_the_stores_own(self, stores):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        old = self.fill(stores)
        assert len(old.search(NS, query="b", limit=50)) == 26
        new = stores.open(index=index(dims=5, fields=["text"]))
        assert new.reindex(batch_size=10) == 27
        assert len(new.search(NS, query="b", limit=50)) == 26
        new.put(NS, "new", {"text": "bbbb"})
        assert "new" in keys(new.search(NS, query="b", limit=3))
        with pytest.raises(IndexMismatchError):
            old.search(NS, query="b")
        old.put(NS, "x", {"text": "b"})
        assert "x" in keys(new.search(NS, query="b", limit=50))
        if stores.has_sql:
            assert stores.vector_tables() == ["milepost_vectors_2"]

    def test_goes_on_where_it_was_broken_off_and_picks_up_what_was_put_since(self, stores):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        old = self.fill(stores)
        model = Model(4)
        new = stores.open(index=index(model, dims=4, fields=["text"]))

        def break_off(done, total):
            raise KeyError("out of credit")

        with pytest.raises(KeyError):
            new.reindex(progress=break_off, batch_size=10)
        assert len(old.search(NS, query="b", limit=50)) == 26
        old.put(NS, "00", {"text": "bbbbb"})
        new.put(NS, "01", {"text": "bbbbbb"})
        model.calls.clear()
        assert new.reindex(batch_size=100) == 18
        assert sum(map(len, model.calls)) == 17
        assert len(new.search(NS, query="b", limit=50)) == 26

    def test_items_from_before_the_index_are_found_after_it(self, stores):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        stores.open().put(NS, "early", {"text": "a"})
        store = stores.open(index=index())
        assert store.search(NS, query="a") == []
        store.reindex()
        assert keys(store.search(NS, query="a")) == ["early"]

    def test_a_store_without_the_index_spoils_nothing(self, stores):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        store, plain = stores.open(index=index()), stores.open()
        store.put(NS, "x", {"text": "a"})
        plain.put(NS, "x", {"text": "b"})
        assert store.search(NS, query="a") == []
        plain.delete(NS, "x")
        plain.put(NS, "y", {"text": "c"})
        assert store.search((), query="a") == []

    def test_needs_an_index(self, store):
        with pytest.raises(ValueError, match="index="):
            store.reindex()


class TestHnsw:
    """On PostgreSQL."""

    INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"

    def open(self, stores, dims):
        if stores.backend != "postgres":
            pytest.skip("another database")

        def embed(texts):
            return [[float(text), 1.0, *[0.0] * (dims - 2)] for text in texts]

        store = stores.open(index={"embed": embed, "dims": dims, "fields": ["n"]})
        for number in (3, 1, 2):
            store.put(("a",), str(number), {"n": str(number)})
        assert keys(store.search(("a",), query="1")) == ["1", "2", "3"]
        return [row[0] for row in stores.rows(self.INDEXES) if "hnsw" in row[0]]

    def test_indexes_vectors_by_their_angle(self, stores):
        (index,) = self.open(stores, 3)
        assert "USING hnsw (vector vector_cosine_ops)" in index

    def test_is_left_out_where_vectors_are_too_long_for_it(self, stores):
        assert self.open(stores, 2001) == []


@pytest.mark.skipif(
    not hasattr(sqlite3.Connection, "enable_load_extension"),
    reason="this Python's sqlite3 was built without loadable extensions",
)
class TestSqliteVec:
    """What sqlite-vec finds is what numpy finds."""

    def test_ranks_like_numpy(self, tmp_path, monkeypatch):
        from milepost.store._vectors import sqlite as vectors
        from milepost.store.sqlite import SqliteStore

        path = str(tmp_path / "store.db")
        settings = index(Model(5), dims=5, fields=["parts[*]"])
        with SqliteStore.from_conn_string(path, index=settings) as store:
            for number in range(80):
                parts = ["abcd"[: number % 4 + 1] * (number % 7), "dcba"[: number % 3 + 1]]
                store.put(("n", str(number % 3)), str(number), {"parts": parts, "n": number})
            store.delete(("n", "0"), "3")
            searches = [
                {},
                {"limit": 3, "offset": 5},
                {"filter": {"n": {"$gt": 40}}, "limit": 20},
                {"limit": 200},
            ]

            def found(prefix):
                return [
                    [(item.key, round(item.score, 5)) for item in store.search(prefix, **search)]
                    for search in ({"query": "ab", **search} for search in searches)
                ]

            by_numpy = [found(()), found(("n", "1"))]
            monkeypatch.setattr(vectors, "LARGEST_COPY", -1)
            assert [found(()), found(("n", "1"))] == by_numpy

    def test_is_used_where_numpy_is_missing(self, monkeypatch):
        from milepost.store._vectors import sqlite as vectors
        from milepost.store.sqlite import SqliteStore

        monkeypatch.setattr(vectors, "_has_numpy", lambda: False)
        with SqliteStore.from_conn_string(":memory:", index=index()) as store:
            store.put(NS, "a", {"text": "a"})
            store.put(NS, "b", {"text": "b"})
            assert keys(store.search(NS, query="b")) == ["b", "a"]
