"""Operations on stores of their own: filters of odd names and numbers, models that misbehave, values
that are too large. What they must come to is known, so each says itself what was wrong."""

from __future__ import annotations

from typing import Any

from attack.aside import own_database
from attack.operation import Context, Operation, Steps, ask
from milepost.errors import EmbeddingError, ValueTooLargeError
from milepost.store.base import PutOp
from milepost.store.memory import InMemoryStore

SAME = "a filter finds the same items in every store"
EMBED = "what a model returns is checked, and what it does to its argument does not matter"
SIZE = "a value that is too large is refused before it is sent"

DATABASES = ("sqlite", "postgres", "postgres-pool")
WITHOUT_EXTENSION = ("memory", "sqlite", "sqlite-encrypted")
"""On PostgreSQL only the attacked schema has the extension that vectors need."""
SPACE = ("probe",)


def wrong(context: Context, promise: str, what: str) -> None:
    context.recorder.note("wrong of a store", promise=promise, what=what[:800])


# -- filters

NUMBERS = [
    0, 1.5, 1e15, 1e16, 1e17, 1e22, 1e23, 1e29, 1e30, -1e30, 1.0000000000000002e30, 2.0**63, 2**53,
    2**53 + 1, 2**63, 10**16, 10**23, 10**30, 10**30 + 1, -(10**30), int(1e30),
]  # fmt: skip
NAMES = ["f", "a\0b", "\0", "é", "1e+30", "google+"]


def odd_items() -> list[PutOp]:
    numbers = [PutOp(SPACE, f"v{at}", {"f": number}) for at, number in enumerate(NUMBERS)]
    names = [PutOp(SPACE, f"n{at}", {name: 1, "o": {name: 2}}) for at, name in enumerate(NAMES)]
    return [*numbers, *names]


def odd_filters() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in NUMBERS:
        for sign in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
            found.append({"f": {sign: number}})
    for name in NAMES:
        found += [{name: 1}, {name: {"$exists": True}}, {name: {"$ne": 1}}, {"o": {name: 2}}]
    return found


def filters(context: Context) -> Steps:
    """A store and one in memory have the same items, and are asked the same."""
    memory, puts = InMemoryStore(), odd_items()
    memory.batch(puts)  # type: ignore[arg-type]
    with context.recorder.call("probe", how="filters"):
        aside = yield from own_database(context)
        with aside.place.store() as store:
            yield ask(store, "setup")
            yield ask(store, "batch", puts)
            for one in context.random.sample(odd_filters(), 30):
                items = yield ask(store, "search", SPACE, filter=one, limit=1000)
                found = sorted(item.key for item in items)
                same = memory.search(SPACE, filter=one, limit=1000)
                expected = sorted(item.key for item in same)
                [(name, wanted)] = one.items()
                if wanted == 1:  # all others have other names
                    expected = [f"n{NAMES.index(name)}"]
                if found != expected:
                    wrong(context, SAME, f"{one}: {found}, not {expected} as in memory")


# -- models


def vector(text: str) -> list[float]:
    return [1.0, float(len(text))]


def returns_none(texts: list[str]) -> Any:
    return None


def returns_none_among_others(texts: list[str]) -> Any:
    return [None, *map(vector, texts[1:])]


def empties(texts: list[str]) -> Any:
    found = [*map(vector, texts)]
    texts.clear()
    return found


def appends(texts: list[str]) -> Any:
    found = [*map(vector, texts)]
    texts += texts
    return found


def embeddings(context: Context) -> Steps:
    """A model that returns nothing, or changes the list that it was given."""
    embed = context.random.choice((returns_none, returns_none_among_others, empties, appends))
    refused = embed in (returns_none, returns_none_among_others)
    texts = ("a", "bb", "ccc")
    puts = [PutOp(SPACE, text, {"text": text}) for text in texts]
    settings: Any = {"index": {"embed": embed, "dims": 2, "fields": ["text"], "model": "odd"}}
    told = {"how": "embeddings", "embed": embed.__name__}
    with context.recorder.call("probe", **told), (yield from opened(context, settings)) as store:
        if hasattr(store, "setup"):
            yield ask(store, "setup")
        try:
            yield ask(store, "batch", puts)
        except EmbeddingError as error:
            if not refused:
                wrong(context, EMBED, f"{embed.__name__}: {error}")
            return
        except (TypeError, AttributeError, ValueError) as error:
            wrong(context, EMBED, f"{embed.__name__}: {error!r}")
            return
        if refused:
            wrong(context, EMBED, f"{embed.__name__}: nobody refused it")
        found = yield ask(store, "search", SPACE, query="ccc", limit=3)
        keys = [item.key for item in found]
        if keys[:1] != ["ccc"] or sorted(keys) != [*texts]:
            wrong(context, EMBED, f"{embed.__name__}: ccc is found as {keys}")


def opened(context: Context, settings: dict[str, Any]) -> Steps:
    if not context.place.is_shared:
        return type(context.place)("").store(**settings)
    aside = yield from own_database(context)
    return aside.place.store(**settings)


# -- sizes


def too_large(context: Context) -> Steps:
    """The limits of databases are too large to be reached here; smaller ones stand for them."""
    what = context.random.choice(("largest", "largest_view"))
    with context.recorder.call("probe", how="too large", what=what):
        aside = yield from own_database(context)
        with aside.place.store() as store:
            yield ask(store, "setup")
            yield ask(store, "put", SPACE, "k", {"text": "short"})
            if getattr(store._core, what) > 2**30:
                wrong(context, SIZE, f"{what} is {getattr(store._core, what)}")
            setattr(store._core, what, 1000)
            try:
                yield ask(store, "put", SPACE, "k", {"text": "x" * 2000})
            except ValueTooLargeError:
                pass
            else:
                wrong(context, SIZE, f"2,000 bytes were put where 1,000 are the most ({what})")
            item = yield ask(store, "get", SPACE, "k")
            if item is None or item.value != {"text": "short"}:
                wrong(context, SIZE, f"a put that was to be refused has left {item}"[:300])


OPERATIONS = [
    Operation("store_filters", filters, ("store.search",), 0.2, DATABASES),
    Operation("store_embeddings", embeddings, ("store.batch",), 0.3, WITHOUT_EXTENSION),
    Operation("store_too_large", too_large, ("store.put",), 0.2, DATABASES),
]
