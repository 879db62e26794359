"""Vectors of different models, made and used by several stores at the same time."""

from __future__ import annotations

import pytest
from embedders import Model
from stepping import Side, pause, until_blocked

from milepost.errors import IndexMismatchError, ReindexConflict
from milepost.store.base import PutOp

NS = ("notes",)
LETTERS = "abcdefgh"


class Shifted(Model):
    """Another model of as many dims: it counts other letters in each place."""

    def vector(self, text):
        counts = [float(text.count(letter)) for letter in LETTERS[: self.dims - 1]]
        return [*counts[::-1], 0.01]


def index(embed, model=None):
    more = {} if model is None else {"model": model}
    return {"embed": embed, "dims": embed.dims, "fields": ["text"], **more}


def keys(items):
    return [item.key for item in items]


def nearest(store):
    """For each letter, the item that is nearest to it."""
    return {letter: keys(store.search(NS, query=letter, limit=1)) for letter in LETTERS[:4]}


RIGHT = {letter: [letter] for letter in LETTERS[:4]}


@pytest.fixture(autouse=True)
def _durable(stores):
    if not stores.is_durable:
        pytest.skip("memory is one process's")


@pytest.fixture
def nested(stores):
    """The test uses one store while another one is at work, in the same thread."""
    if stores.is_async:
        pytest.skip("a loop that runs cannot be run again")


@pytest.fixture
def on_postgres(stores, postgres):
    """A connection to look at locks with; the test needs statements that wait for each other."""
    if stores.backend != "postgres" or stores.is_async:
        pytest.skip("only PostgreSQL lets two writers be under way at once")
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def fill(store):
    store.batch([PutOp(NS, letter, {"text": letter * 3}) for letter in LETTERS[:4]])


def orphans(stores):
    """Vectors without an item, in all tables of vectors."""
    return [
        row
        for table in stores.vector_tables()
        for row in stores.rows(
            f"SELECT item FROM {table} WHERE item NOT IN (SELECT id FROM milepost_items)"
        )
    ]


class TestTheSwitch:
    """The end of a reindex."""

    @pytest.mark.parametrize("statement", ["INSERT INTO milepost_items", "milepost_store_meta"])
    def test_waits_for_a_put_that_is_under_way(self, stores, on_postgres, statement):
        old = stores.open(index=index(Model(5), "one"))
        fill(old)
        new = stores.open(index=index(Shifted(5), "two"))
        gate = pause(old.store, statement)
        writer = Side(lambda: old.put(NS, "late", {"text": "aaaab"}))
        assert gate.reached.wait(60)
        reindex = Side(new.reindex)
        until_blocked(reindex, on_postgres)
        gate.opened.set()
        writer.join()
        reindex.join()
        assert "late" in keys(new.search(NS, query="a", limit=2))
        assert orphans(stores) == []

    def test_waits_for_a_search_that_is_under_way(self, stores, on_postgres):
        old = stores.open(index=index(Model(5), "one"))
        fill(old)
        new = stores.open(index=index(Shifted(5), "two"))
        gate = pause(old.store, "milepost_vectors_1")
        reader = Side(lambda: keys(old.search(NS, query="b", limit=1)))
        assert gate.reached.wait(60)
        reindex = Side(new.reindex)
        until_blocked(reindex, on_postgres)
        gate.opened.set()
        assert reader.join() == ["b"]
        reindex.join()
        assert nearest(new) == RIGHT

    def test_a_put_of_the_new_model_is_not_mixed_with_what_the_reindex_makes(
        self, stores, on_postgres
    ):
        fill(stores.open(index=index(Model(5), "one")))
        new, other = (stores.open(index=index(Shifted(5), "two")) for _ in range(2))
        gate = pause(new.store, "UPDATE milepost_items SET reindexed")
        reindex = Side(new.reindex)
        assert gate.reached.wait(60)
        # It has the text of before in hand.
        writer = Side(lambda: other.put(NS, "a", {"text": "dddd"}))
        until_blocked(writer, on_postgres)
        gate.opened.set()
        writer.join()
        reindex.join()
        assert keys(new.search(NS, query="a", limit=1)) != ["a"]
        assert set(keys(new.search(NS, query="d", limit=2))) == {"a", "d"}

    def test_comes_although_there_is_something_new_at_every_look(self, stores):
        if stores.is_async:
            pytest.skip("a loop that runs cannot be run again")
        old = stores.open(index=index(Model(5), "one"))
        fill(old)
        new = stores.open(index=index(Shifted(5), "two"))
        new.setup()
        engine = new.store._engine

        class Busy:
            """Before each attempt to switch, somebody puts something."""

            puts = 0

            def __getattr__(self, name):
                return getattr(engine, name)

            def run(self, work, *, write):
                if write and self.puts < 50:
                    self.puts += 1
                    old.put(NS, f"n{self.puts}", {"text": "a"})
                return engine.run(work, write=write)

        busy = Busy()
        new.store.use(busy)
        new.reindex()
        assert busy.puts < 20
        new.store.use(engine)
        assert len(new.search(NS, query="a", limit=100)) == 4 + busy.puts


class TestTwoReindexes:
    @pytest.mark.usefixtures("nested")
    def test_to_different_models_do_not_mix_and_the_later_one_counts(self, stores):
        fill(stores.open(index=index(Model(5), "one")))
        first = stores.open(index=index(Model(5), "two"))
        second = stores.open(index=index(Shifted(5), "three"))

        def meanwhile(done, total):
            if done == 1:
                with pytest.raises(KeyError):
                    second.reindex(progress=break_off, batch_size=1)
                first.put(NS, "late", {"text": "cccd"}, index=False)  # it looks at the database

        def break_off(done, total):
            raise KeyError("out of credit")

        with pytest.raises(ReindexConflict, match="three"):
            first.reindex(progress=meanwhile, batch_size=1)
        second.reindex()
        assert nearest(second) == RIGHT
        with pytest.raises(IndexMismatchError):
            first.search(NS, query="a")
        first.reindex()
        assert nearest(first) == RIGHT

    @pytest.mark.usefixtures("nested")
    def test_to_one_model_help_each_other(self, stores):
        fill(stores.open(index=index(Model(5), "one")))
        first, second = (stores.open(index=index(Shifted(5), "two")) for _ in range(2))
        counts = []

        def meanwhile(done, total):
            if done == 1:
                counts.append(second.reindex())

        counts.append(first.reindex(progress=meanwhile, batch_size=1))
        assert sorted(counts) == [1, 3]
        assert nearest(first) == nearest(second) == RIGHT

    @pytest.mark.usefixtures("nested")
    def test_to_models_that_nothing_tells_apart_do_not_share_a_generation(self, stores):
        def embedder(model):
            def embed(texts):
                return model(texts)

            embed.dims = model.dims
            return embed

        fill(stores.open(index=index(Model(5), "one")))
        first = stores.open(index=index(embedder(Model(5))))
        second = stores.open(index=index(embedder(Shifted(5))))

        def meanwhile(done, total):
            if done == 1:
                assert second.reindex() == 4

        with pytest.raises(ReindexConflict, match="embed"):
            first.reindex(progress=meanwhile, batch_size=1)
        assert nearest(second) == RIGHT


class TestModelsWithoutAName:
    """Two functions of one name and as many dims may be different models."""

    def embedder(self, model):
        def embed(texts):
            return model(texts)

        embed.dims = model.dims
        return embed

    def test_another_one_is_noticed_after_a_reindex(self, stores):
        old = stores.open(index=index(self.embedder(Model(5))))
        fill(old)
        new = stores.open(index=index(self.embedder(Shifted(5))))
        new.reindex()
        assert nearest(new) == RIGHT
        with pytest.raises(IndexMismatchError, match="other vectors"):
            old.search(NS, query="a")
        old.put(NS, "late", {"text": "eeee"})
        assert "late" in keys(new.search(NS, query="e"))
        opened = stores.open(index=index(self.embedder(Model(5))))
        with pytest.raises(IndexMismatchError, match="other vectors"):
            opened.search(NS, query="a")
        with pytest.raises(IndexMismatchError, match="other vectors"):
            opened.put(NS, "x", {"text": "a"})
        name = "TestModelsWithoutAName.embedder.<locals>.embed"
        assert nearest(stores.open(index=index(Shifted(5), name))) == RIGHT

    def test_the_same_one_goes_on_after_a_reindex_and_is_asked_once(self, stores):
        model = Model(5)
        mine, other = (stores.open(index=index(self.embedder(m))) for m in (Model(5), model))
        fill(mine)
        assert nearest(other) == RIGHT
        mine.reindex()
        model.calls.clear()
        assert nearest(other) == RIGHT
        other.put(NS, "late", {"text": "aaab"})
        assert len(model.calls) == 4 + 1 + 1
        assert "late" in keys(mine.search(NS, query="a", limit=2))
        mine.reindex()
        assert nearest(other) == RIGHT


class TestRollingDeploy:
    def test_what_old_processes_put_after_the_switch_is_found_by_the_new_ones(self, stores):
        old = stores.open(index=index(Model(5), "one"))
        fill(old)
        new = stores.open(index=index(Shifted(5), "two"))
        new.reindex()
        old.put(NS, "late", {"text": "eeee"})
        old.put(NS, "a", {"text": "dddd"})
        with pytest.raises(IndexMismatchError, match="two"):
            old.search(NS, query="a")
        assert "late" in keys(new.search(NS, query="e"))
        assert keys(new.search(NS, query="a", limit=1)) != ["a"]
        assert len(new.search(NS, query="a")) == 5

    @pytest.mark.usefixtures("nested")
    def test_what_new_processes_put_before_the_switch_is_found_by_the_old_ones(self, stores):
        old = stores.open(index=index(Model(5), "one"))
        fill(old)
        new = stores.open(index=index(Shifted(5), "two"))

        def meanwhile(done, total):
            if done == 1:
                new.put(NS, "early", {"text": "bbbc"})
                assert "early" in keys(old.search(NS, query="b", limit=2))
                assert nearest(old) == RIGHT

        new.reindex(progress=meanwhile, batch_size=1)
        assert "early" in keys(new.search(NS, query="b", limit=2))
        assert nearest(new) == RIGHT

    def test_a_store_whose_model_never_made_the_vectors_is_refused(self, stores):
        fill(stores.open(index=index(Model(5), "one")))
        wrong = stores.open(index=index(Shifted(5), "two"))
        with pytest.raises(IndexMismatchError, match="reindex"):
            wrong.put(NS, "x", {"text": "a"})
        assert wrong.get(NS, "x") is None

    def test_a_model_that_fails_does_not_keep_others_from_being_found(self, stores):
        model = Shifted(5)
        old = stores.open(index=index(Model(5), "one"))
        fill(old)
        new = stores.open(index=index(model, "two"))
        new.reindex()
        old.put(NS, "late", {"text": "poison"})
        vector = model.vector
        model.vector = lambda text: vector(text) if text != "poison" else [float("nan")] * 5
        assert nearest(new) == RIGHT
        model.vector = vector
        fresh = stores.open(index=index(model, "two"))
        assert len(fresh.search(NS, query="a")) == 5
