"""How long vectors are, in a store in memory: the first that is kept shows it."""

import pytest

from milepost.errors import EmbeddingError
from milepost.store.memory import InMemoryStore
from milepost.warnings import MilepostWarning

pytest.importorskip("numpy")


def store(made: dict[str, list[float]], **settings: int) -> InMemoryStore:
    def embed(texts: list[str]) -> list[list[float]]:
        return [made[text] for text in texts]

    return InMemoryStore(index={"embed": embed, "fields": ["text"], **settings})


def test_an_empty_vector_is_refused():
    items = store({"blank": [], "car": [1.0, 0.0]}, dims=2)
    with pytest.raises(EmbeddingError, match="length 0"):
        items.put(("n",), "blank", {"text": "blank"})
    items.put(("n",), "car", {"text": "car"})
    assert [item.key for item in items.search(("n",), query="car")] == ["car"]


def test_what_is_refused_or_only_asked_fixes_no_length():
    nan = float("nan")
    items = store({"bad": [nan] * 5, "short": [1.0], "car": [1.0, 0.0]})
    with pytest.raises(EmbeddingError, match="NaN"):
        items.put(("n",), "bad", {"text": "bad"})
    assert items.search(("n",), query="short") == []
    items.put(("n",), "car", {"text": "car"})
    with pytest.raises(EmbeddingError, match="length 1"):
        items.put(("n",), "short", {"text": "short"})


def test_the_length_that_counts_is_the_models():
    items = store({"car": [1.0, 0.0]}, dims=3)
    with pytest.warns(MilepostWarning, match="the model's length counts"):
        items.put(("n",), "car", {"text": "car"})
    assert [item.score for item in items.search(("n",), query="car")] == [pytest.approx(1.0)]
