"""Writes items to Redis: reads the current heads, decides, and writes with a script that fails if a
head has changed since.

The script guards the heads of the items that it replaces. So two writers conflict only if they put
the same item, or if one deletes and the other creates, since versions of deleted items are not used
again. The second writer reads and decides again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost._db.calls import Pause
from milepost._db.redis.commands import (
    WAIT_MS,
    WAITS,
    Command,
    RedisEffects,
    RunScript,
    Waited,
    command,
    until_safe,
)
from milepost._db.redis.guarded import Guard, guarded, is_done, reading
from milepost._internal import log
from milepost.errors import (
    DatabaseBusyError,
    OutcomeUnknownError,
    StorageError,
    VersionConflict,
)
from milepost.store._core.tasks import Write, last_writes, writes_of
from milepost.store._redis.change import Batch, Change, RootState, State
from milepost.store._redis.layout import Head, Place, member, parsed, root_of, roots_of
from milepost.store._redis.marks import RootGenerations, follow, mark
from milepost.store._vectors.generations import Generations

if TYPE_CHECKING:
    from milepost.store._redis.core import RedisCore

_MAX_ATTEMPTS: Final = 200
_QUICK_ATTEMPTS: Final = 3
"""Attempts without a pause after them."""
_PAUSE_SECONDS: Final = 0.001
"""Multiplied with the number of the attempt, and a random part of it."""
_MAX_PAUSE_FACTOR: Final = 20
_MAX_LOST_REPLIES: Final = 5
"""Lost replies after which a batch is not sent again."""


class ItemWriter:
    """Carries out the operations that write."""

    def __init__(self, core: RedisCore, *, fsync: bool) -> None:
        self._keys = core.keys
        self._notebook = core.notebook
        self._stamps = core.stamps
        self._fsync = fsync
        self._has_warned = False

    def write(self, batch: Batch, generations: Generations | None) -> RedisEffects[None]:
        """Carry out the writes of every group that has not failed. A refused group joins `failed`.

        `generations` is None if this store has no index. Raises StaleGenerations if a root has a
        later generation.
        """
        for attempt in range(_MAX_ATTEMPTS):
            writes = batch.writes()
            state = yield from self._read(writes)
            if batch.lost_replies and self._was_stored(batch, state):
                continue
            final = self._decided(batch, state, generations) if writes else {}
            if not final:
                if batch.fresh:
                    yield from self._notebook.register(sorted(batch.fresh))
                return
            behind = False
            for root in roots_of(final):
                known = state.roots[root].generations
                behind |= yield from follow(self._keys.root(root), known, generations)
            if behind:
                continue
            try:
                yield from self._store(batch, final, state, generations)
            except OutcomeUnknownError:
                batch.lost_replies += 1
                if batch.lost_replies > _MAX_LOST_REPLIES:
                    raise
            if attempt >= _QUICK_ATTEMPTS:
                yield Pause(random.uniform(0, _PAUSE_SECONDS * min(attempt, _MAX_PAUSE_FACTOR)))
        raise DatabaseBusyError(
            f"Others have changed the same items, or deleted items next to them, at each of "
            f"{_MAX_ATTEMPTS} attempts; nothing was written. Repeat the call later."
        )

    def _was_stored(self, batch: Batch, state: State) -> bool:
        """Whether a script has run whose reply was lost. Its roots are done then."""
        found = {
            place[0][0]
            for place, head in state.heads.items()
            if head is not None and head.nonce == batch.nonce
        }
        if found and not self._keys.is_cluster:
            found = set(state.roots)
        batch.done |= found
        return bool(found)

    # -- the current state

    def _read(self, writes: Sequence[Write]) -> RedisEffects[State]:
        state = State({}, {}, {})
        places = {(write.namespace, write.key) for write in writes}
        for unit in self._keys.units(places):
            yield from self._read_unit(unit, state)
        return state

    def _read_unit(self, places: Sequence[Place], state: State) -> RedisEffects[None]:
        roots = roots_of(places)
        metas = [self._keys.root(root).meta for root in roots]
        spaces = sorted({namespace for namespace, _ in places})
        heads = [self._keys.space(space).heads for space in spaces]
        commands = [
            command("HMGET", meta, "deleted", "root", "current", "coming") for meta in metas
        ]
        commands += [command("HLEN", key) for key in heads]
        commands += [command("HGET", self._keys.space(ns).heads, key) for ns, key in places]
        replies = iter((yield reading([*metas, *heads], commands))[1:])
        for root in roots:
            deleted, token, current, coming = next(replies)
            generations = RootGenerations.read(current, coming)
            state.roots[root] = RootState(int(deleted or 0), token, generations)
        for space in spaces:
            state.sizes[space] = int(next(replies))
        for place in places:
            state.heads[place] = parsed(place, next(replies))

    # -- the decision

    def _decided(
        self, batch: Batch, state: State, generations: Generations | None
    ) -> dict[Place, Write]:
        """The write of each place."""

        def version(write: Write) -> int:
            head = state.heads[write.namespace, write.key]
            return 0 if head is None or head.is_expired(batch.now) else head.updated

        left = [
            [
                write
                for write in writes_of([group], ())
                if write.namespace[0] not in batch.done
                and not (batch.only_expired and version(write))
            ]
            for group in batch.groups
        ]
        refusal = partial(_refusal, batch)
        final = last_writes(left, batch.failed, generations, version, refusal)
        # A delete of an item that does not exist is left out.
        return {
            place: write
            for place, write in final.items()
            if write.data is not None or state.heads[place] is not None
        }

    # -- the script

    def _store(
        self,
        batch: Batch,
        final: Mapping[Place, Write],
        state: State,
        generations: Generations | None,
    ) -> RedisEffects[None]:
        new = [root for root in roots_of(final) if state.roots[root].token is None]
        floor = (yield from self._notebook.register(new)) if new else 0
        batch.fresh |= set(new)
        stamp = self._stamps.next(len(final))
        stamps = {place: stamp + at for at, place in enumerate(final)}
        for unit in self._keys.units(final):
            change = Change(self._keys, state, batch, floor)
            roots = roots_of(unit)
            for root in roots:
                change.begin(root)
            for place in unit:
                write = final[place]
                change.add(place, write, stamps[place])
                mark(self._keys.root(root_of(place)), change, place, write, generations)
            change.end()
            answer = yield from self.commit(change.script())
            if not is_done(answer):
                return
            batch.done |= set(roots)
            batch.written += len(unit)

    def commit(self, run: RunScript) -> RedisEffects[list[Any]]:
        """Run a script that writes; with `fsync`, wait for the disk."""
        if not self._fsync:
            answer: list[Any] = yield run
            return answer
        found = yield Waited(run, local=1, replicas=0, timeout_ms=WAIT_MS)
        if found.is_known:
            found = (yield from until_safe(found, run.keys[0] + b":wait", 1, 0))._replace(
                reply=found.reply
            )
        if found.local == 0:
            raise StorageError(
                "The write is in the server's memory, but was not on its disk after "
                f"{WAITS * WAIT_MS / 1000:g} s. Look into the server's log."
            )
        if not found.is_known and not self._has_warned:
            self._has_warned = True
            log.warning(
                log.STORE,
                "The server cannot tell when a write is on its disk (WAITAOF needs Redis 7.2 or "
                "Valkey, and appendonly yes): what it promises is its appendfsync.",
            )
        return list(found.reply)

    # -- lifetimes

    def renew(self, items: Sequence[tuple[Place, Head]]) -> RedisEffects[None]:
        """Renew the lifetimes of items that have not expired or changed."""
        now = self._stamps.now()
        once = dict(items)
        for unit in self._keys.units(once):
            mine = [(place, once[place]) for place in unit]
            answer = yield self._renewing(mine, now)
            if not is_done(answer) and len(mine) > 1:
                for one in mine:
                    yield self._renewing([one], now)

    def _renewing(self, items: Sequence[tuple[Place, Head]], now: int) -> RunScript:
        keys, guards = [], []
        commands: list[Command] = []
        for (namespace, key), head in items:
            if head.is_expired(now) or head.ttl is None:
                continue
            expires = max(head.expires or 0, now + head.ttl)
            new = replace(head, expires=expires)
            heads, expiry = self._keys.space(namespace).heads, self._keys.root(namespace[0]).expiry
            keys += [heads, expiry]
            guards.append(Guard(("HGET", heads, key), head.stored))
            name = member(namespace, key)
            if not commands:
                # After this, a server whose memory is full takes the rest too.
                commands.append(command("ZREM", expiry, name))
            commands.append(command("HSET", heads, key, new.dump()))
            commands.append(command("ZADD", expiry, expires, name))
        return guarded(keys or [self._keys.meta], guards, commands)


def _refusal(batch: Batch, number: int, write: Write, current: int) -> Exception:
    if batch.lost_replies:
        return OutcomeUnknownError(
            f"The connection was lost while the item {write.key!r} in {write.namespace} was put, "
            "and others have changed it since, so that it is unknown whether it was stored. Get "
            "the item, and decide."
        )
    refused = write.conflict(current)
    roots = {one.namespace[0] for one in writes_of([batch.groups[number]], ())}
    stored = sorted(roots & batch.done)
    if stored:
        return VersionConflict(
            f"{refused} In a cluster a batch is one unit only below one root: its writes below "
            f"{', '.join(map(repr, stored))} were stored before others changed this item."
        )
    return refused
