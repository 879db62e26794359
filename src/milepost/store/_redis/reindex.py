"""Making vectors for items that are stored already, in small scripts, while others use the store:
for all items (`reindexing`), or for those whose putter could not make them (`embed_lacking`).

Items are marked in the coming generation as their vectors are made. When all are, but for a few
that were put since, the notes of the store switch over. Vectors are stored only for items that are
still what was read. A reindex that is broken off and started again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.redis.commands import Program as RedisProgram
from milepost._db.redis.commands import command
from milepost._db.redis.guarded import ARGUMENTS, Counter, Guard, guarded, number
from milepost._internal import log
from milepost.errors import DatabaseBusyError, SerdeError
from milepost.store._core.tasks import Embed, Program, Progress, Transact
from milepost.store._redis.heads import Place
from milepost.store._redis.keys import from_member, member
from milepost.store._redis.marks import RootGenerations, StaleGenerations, marked, packed
from milepost.store._redis.notes import Notes
from milepost.store._redis.upkeep import Stored, all_roots, chunks, items_at, names_in, spaces_of
from milepost.store._vectors import probing
from milepost.store._vectors.generations import PROBE

if TYPE_CHECKING:
    from milepost.store._redis.core import RedisCore
    from milepost.store._vectors.embeddings import Packed
    from milepost.store._vectors.generations import Generations

_FEW: Final = 100
"""Items that may be left to be embedded after a switch; and so many are embedded at once then."""
_ATTEMPTS: Final = 50


class _Read(NamedTuple):
    """An item, and its texts that are embedded."""

    item: Stored
    texts: Sequence[str]


def reindexing(core: RedisCore, progress: Progress | None, size: int) -> Program[int]:
    """Rebuild all vectors; returns the number of items."""
    if core.embedder is None:
        raise ValueError("The store has no index. Make it with index={'embed': …, 'dims': …}.")
    coming, is_new = yield Transact(partial(_begin, core), write=True)
    if is_new:
        probe = probing.dump((yield Embed(list(probing.TEXTS), []))[0])
        yield Transact(partial(_note_probe, core, coming, probe), write=True)
    done = 0
    left: int | None = None
    while True:
        places: list[Place] = yield Transact(partial(_stale, core, coming), write=True)
        left = len(places) if left is None else left
        for some in chunks(places, max(size, 1)):
            found = yield from _read(core, some, strict=True)
            vectors = yield from _embedded(found)
            is_made: bool = yield Transact(
                partial(_store, core, coming, found, vectors), write=True
            )
            if not is_made:
                return done
            done += len(some)
            if progress is not None:
                progress(done, max(left, done))
        if len(places) <= _FEW:
            yield Transact(partial(_switch, core, coming), write=True)
            return done + (yield from embed_lacking(core, None, strict=True))


def embed_lacking(
    core: RedisCore, roots: Sequence[str] | None, *, strict: bool = False
) -> Program[int]:
    """Make the vectors that items below these roots lack; how many items it was.

    Unless it is `strict`, a failure leaves them for another time: a search must not fail because
    the text of some other item cannot be embedded.
    """
    done = 0
    if roots is None:
        roots = yield Transact(partial(all_roots, core), write=False)
    for root in roots:
        places: list[Place] = yield Transact(partial(_lacking, core, root), write=False)
        for some in chunks(places, _FEW):
            found = yield from _read(core, some, strict=strict)
            try:
                vectors = yield from _embedded(found)
            except Exception as error:
                if strict:
                    raise
                log.warning(log.STORE, "Items that lack vectors were not embedded: %s.", error)
                return done
            done += yield Transact(partial(_complete, core, found, vectors), write=True)
    return done


def verifying(core: RedisCore, number: int) -> Program[None]:
    """Find out whether this store's model, which has no name, makes the vectors of a generation."""
    notes: Notes = yield Transact(core.notebook.load, write=False)
    stored = notes.get(f"{PROBE}{number}")
    if stored is not None:
        made = (yield Embed(list(probing.TEXTS), []))[0]
        core.state.judge(number, probing.alike(stored, made))


# -- the notes


def _begin(core: RedisCore) -> RedisProgram[tuple[int, bool]]:
    """Begin a generation, or go on with the one that is coming; its number, and whether it has to
    be probed."""
    begun: list[tuple[int, bool]] = []

    def begin(notes: Notes) -> Notes | None:
        found = core.state.known(notes)
        begun.clear()
        if found.coming is not None and found.can_resume():
            number = found.coming.number
            begun.append((number, not core.state.is_named and number not in found.probed))
            return None
        if found.coming is not None:
            notes.pop(f"{PROBE}{found.coming.number}", None)
        coming = core.state.after(found)
        begun.append((coming.number, not core.state.is_named))
        return {**notes, "reindex": coming.dump(), "reindex_maker": core.state.maker}

    yield from core.notebook.change(begin)
    core.state.was_fitting = True
    return begun[0]


def _note_probe(core: RedisCore, number: int, probe: str) -> RedisProgram[None]:
    def noted(notes: Notes) -> Notes | None:
        if not core.state.known(notes).is_making(number):
            return None
        return {**notes, f"{PROBE}{number}": probe}

    yield from core.notebook.change(noted)
    core.state.judge(number, True)


def _switch(core: RedisCore, number: int) -> RedisProgram[None]:
    """Make the coming generation the current one; what is not in it lacks vectors."""

    def switched(notes: Notes) -> Notes | None:
        found = core.state.known(notes)
        if not found.is_making(number):
            return None
        notes["index"] = notes.pop("reindex")
        notes.pop("reindex_maker", None)
        if found.current is not None:
            notes.pop(f"{PROBE}{found.current.number}", None)
        return notes

    notes = yield from core.notebook.change(switched)
    generations = core.state.known(notes)
    for root in (yield from all_roots(core)):
        yield from _followed(core, root, generations)


# -- roots


def _followed(core: RedisCore, root: str, generations: Generations) -> RedisProgram[bool]:
    """Bring a root up to the generations; False if it is ahead of them."""
    meta = core.keys.root(root).meta
    for _ in range(_ATTEMPTS):
        there = yield command("HMGET", meta, "root", "current", "coming")
        if there[0] is None:
            return True  # it has no items
        known = RootGenerations(*(None if one is None else int(one) for one in there[1:]))
        try:
            if not (yield from core.marks.follow(root, known, generations)):
                return True
        except StaleGenerations:
            return False
    raise DatabaseBusyError("The vectors of a root were changed by others at each attempt.")


def _stale(core: RedisCore, number: int) -> RedisProgram[list[Place]]:
    """The items without vectors of the coming generation."""
    generations = core.state.known((yield from core.notebook.load()))
    found: list[Place] = []
    if not generations.is_making(number):
        return found
    for root in (yield from all_roots(core)):
        if not (yield from _followed(core, root, generations)):
            continue
        marks = core.keys.root(root).coming_marks
        for space in (yield from spaces_of(core, root)):
            names = yield from names_in(core, space)
            for some in chunks(names, ARGUMENTS - 2):
                members = [member(space, name) for name in some]
                scores = yield command("ZMSCORE", marks, *members)
                found += [
                    (space, name) for name, score in zip(some, scores, strict=True) if score is None
                ]
    return found


def _lacking(core: RedisCore, root: str) -> RedisProgram[list[Place]]:
    names = yield command("ZRANGEBYSCORE", core.keys.root(root).marks, 0, 0)
    return [from_member(name) for name in names]


# -- items


def _read(core: RedisCore, places: Sequence[Place], *, strict: bool) -> Program[list[_Read]]:
    found = []
    items: list[Stored] = []
    for _, part in groupby(places, key=_root):
        items += yield Transact(partial(items_at, core, list(part)), write=False)
    for item in items:
        try:
            texts = core.texts(core.plain_value(item.row), item.head.index)
        except SerdeError as error:
            if strict:
                raise
            damaged = "Item '%s' in %s lacks its vectors and does not open: %s."
            log.warning(log.STORE, damaged, item.row.key, item.row.namespace, error)
            continue
        found.append(_Read(item, texts))
    return found


def _embedded(found: Sequence[_Read]) -> Program[dict[str, Packed]]:
    texts = list(dict.fromkeys(text for one in found for text in one.texts))
    made = (yield Embed(texts, []))[0] if texts else ()
    return dict(zip(texts, made, strict=True))


def _store(
    core: RedisCore, number: int, found: Sequence[_Read], vectors: Mapping[str, Packed]
) -> RedisProgram[bool]:
    """Store vectors of the coming generation; False if it is the current one by now."""
    generations = core.state.known((yield from core.notebook.load()))
    if not generations.is_making(number):
        return False
    for root, part in groupby(found, key=lambda one: _root(one.item.place)):
        yield from _mark(core, root, list(part), vectors, generations, coming=True)
    return True


def _complete(
    core: RedisCore, found: Sequence[_Read], vectors: Mapping[str, Packed]
) -> RedisProgram[int]:
    """Store vectors of the current generation; of how many items."""
    generations = core.state.known((yield from core.notebook.load()))
    # Another reindex may have switched meanwhile; it has seen to these items.
    if not generations.is_current():
        return 0
    count = 0
    for root, part in groupby(found, key=lambda one: _root(one.item.place)):
        count += yield from _mark(core, root, list(part), vectors, generations, coming=False)
    return count


def _mark(
    core: RedisCore,
    root: str,
    found: list[_Read],
    vectors: Mapping[str, Packed],
    generations: Generations,
    *,
    coming: bool,
) -> RedisProgram[int]:
    """Give items below one root their vectors, if they are still what was read; to how many."""
    keys = core.keys.root(root)
    pair = (keys.coming_marks, keys.coming_vectors) if coming else (keys.marks, keys.vectors)
    for _ in range(_ATTEMPTS):
        if not (yield from _followed(core, root, generations)):
            return 0
        there = yield command("HMGET", keys.meta, "current", "coming")
        known = RootGenerations(*(None if one is None else int(one) for one in there))
        items = {
            one.place: one for one in (yield from items_at(core, [r.item.place for r in found]))
        }
        guards, commands, more = known.guards(keys.meta), [], list(keys)
        count = 0
        for one in found:
            now = items.get(one.item.place)
            if now is None or now.head.updated != one.item.head.updated:
                continue
            count += 1
            heads = core.keys.space(now.row.namespace).heads
            more.append(heads)
            guards.append(Guard(("HGET", heads, now.row.key), now.stored))
            blob = packed(now.head.created, [vectors[text] for text in one.texts])
            commands += marked(*pair, member(*now.place), number(0), blob)
        if not count:
            return 0
        script = guarded(list(dict.fromkeys(more)), guards, commands, [Counter(keys.meta, "seq")])
        answer: list[Any] = yield script
        if answer[0]:
            return count
    return 0


def _root(place: Place) -> str:
    return place[0][0]
