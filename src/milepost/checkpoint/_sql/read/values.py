"""Puts values together from the rows of their chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.checkpoint._delta.diff import Buffer, DeltaOps, Parts, unpack
from milepost.checkpoint._delta.encode import Codec, Encoded
from milepost.checkpoint._delta.rope import Rope
from milepost.checkpoint._delta.split import cut
from milepost.checkpoint._sql.cache import CachedValue, Chain, OlderVersion
from milepost.checkpoint._sql.rows import MSGPACK, long_kind
from milepost.checkpoint._sql.shared_list import ListVersion, follow, whole
from milepost.errors import BrokenChainError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_record: Final = tuple.__new__


class BlobRecord(NamedTuple):
    """A row of `checkpoint_blobs` without the thread and namespace."""

    channel: str
    version: str
    base_channel: str | None
    base: str | None
    level: int
    kind: str | None
    data: bytes


class Resolver:
    """The values of one graph of one thread, from rows and from the cache."""

    def __init__(
        self,
        codec: Codec,
        at: tuple[str, str],
        rows: Iterable[Sequence[Any]],
        cached: Mapping[tuple[str, str], CachedValue],
        *,
        shares: bool = False,
    ) -> None:
        self._codec = codec
        self._place = at
        # `tuple.__new__` directly: with a hundred rows, the constructor calls would cost the most.
        self._rows = {(row[0], row[1]): _record(BlobRecord, row) for row in rows}
        self._cached = cached
        self._shares = shares and codec.reads_elements
        """Whether many versions of a value will be read: common elements are then decoded once."""
        self._ropes: dict[tuple[str, str], Rope | ListVersion] = {}
        self._deltas: dict[tuple[str, str], DeltaOps] = {}
        """The deltas that made versions, for `chain`."""

    def kind(self, channel: str, version: str) -> str:
        cached = self._cached.get((channel, version))
        return cached.kind if cached is not None else long_kind(self._row(channel, version).kind)

    def base(self, channel: str, version: str) -> tuple[str, str] | None:
        """The channel and version that a version is stored as a delta from."""
        row = self._row(channel, version)
        return None if row.base is None else (row.base_channel or channel, row.base)

    def rope(self, channel: str, version: str) -> Rope | ListVersion:
        """A version as pieces of the rows in its chain."""
        key = (channel, version)
        rows, ropes = self._rows, self._ropes
        line: list[BlobRecord] = []
        while key not in ropes:
            if (cached := self._cached.get(key)) is not None:
                ropes[key] = _whole(cached.kind, b"".join(cached.pieces()))
                break
            row = rows.get(key) or self._row(*key)
            base = row[3]
            if base is None:
                ropes[key] = _whole(long_kind(row[5]), self.open(row))
                break
            line.append(row)
            if len(line) > len(rows):
                raise self._broken(channel, version, "its chain of differences is a circle")
            key = (row[2] or row[0], base)
        rope = ropes[key]
        if line:
            line.reverse()
            made = self._followed(rope, line)
            ropes.update(zip([row[:2] for row in line], made, strict=True))
            rope = made[-1]
        return rope

    def _followed(
        self, base: Rope | ListVersion, line: Sequence[BlobRecord]
    ) -> Sequence[Rope | ListVersion]:
        """The versions of the rows in `line`, each made from the version before."""
        try:
            deltas = [unpack(self.open(row)) for row in line]
            made = follow(base, deltas)
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel=line[-1].channel) from None
        for row, delta in zip(line, deltas, strict=True):
            self._deltas[row[:2]] = delta
        return made

    def value(self, channel: str, version: str) -> Any:
        key = (channel, version)
        place = ("blob", *self._place, channel, version)
        try:
            if not self._shares:
                cached = self._cached.get(key)
                if cached is not None:
                    return cached.decoded(self._codec, place)
                row = self._rows.get(key)
                if row is not None and row[3] is None:
                    # A full row, as for most short values.
                    return self._codec.decode(row[5] or MSGPACK, [self.open(row)], *place)
            kind, rope = self.kind(channel, version), self.rope(channel, version)
            if self._shares and isinstance(rope, ListVersion) and kind == MSGPACK and rope.is_list:
                try:
                    return rope.elements(self._codec)
                except SerdeError:
                    pass  # decoding the value as a whole tells the reason
            return self._codec.decode(kind, rope.buffers(), *place)
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel=channel) from None

    def size(self, channel: str, version: str) -> int:
        """About how many bytes a version takes."""
        row = self._rows.get((channel, version))
        if row is not None and row[3] is None:
            return len(row[6])
        return len(self.rope(channel, version))

    def remember(self, channel: str, version: str, epoch: int | None) -> CachedValue:
        """The cache's entry for a version, from which later versions are stored as deltas."""
        cached = self._cached.get((channel, version))
        return cached if cached is not None else LazyValue(self, channel, version, epoch)

    def chain(self, channel: str, version: str) -> Chain:
        self.rope(channel, version)
        line: list[BlobRecord] = []
        spent = 0
        at: str | None = version
        while at is not None and (channel, at) not in self._cached:
            row = self._rows[channel, at]
            line.append(row)
            if row.base is not None:
                spent += len(row.data)
            at = None if row.base_channel is not None else row.base
        if at is not None:
            before = self._cached[(channel, at)].chain
            return Chain.of_changes(len(line) + before.rows, spent + before.spent)
        appended = self._append_chain(line, spent) if line[-1].base is None else None
        return appended or Chain.of_changes(len(line), spent)

    def encoded(self, channel: str, version: str) -> Encoded:
        """The bytes of a version, cut into parts if that costs little."""
        kind, rope = self.kind(channel, version), self.rope(channel, version)
        return cut(Encoded(kind, Parts(b"", [rope.read()]), len(rope)))

    def _append_chain(self, line: Sequence[BlobRecord], spent: int) -> Chain | None:
        """The chain, if each of its versions only added to the version before; None otherwise."""
        roots: list[OlderVersion] = []
        tail: list[OlderVersion] = []
        before: ListVersion | None = None
        for row in reversed(line):
            channel, version, _, base, level, _, _ = row
            rope = self._ropes[channel, version]
            if not isinstance(rope, ListVersion):
                return None
            delta = self._deltas.get((channel, version))
            if before is not None and delta is not None and not rope.grows_from(before, delta):
                return None
            if level and tail:
                # A large row on a small one: compacting the small row would make a circle.
                return None
            before = rope
            older = OlderVersion(version, rope.head, len(rope.head) + rope.size)
            (roots if base is None or level else tail).append(older)
        is_root = not tail
        (tail or roots).pop()
        compactions = line[-1].level
        return Chain(len(line), spent, tuple(roots), tuple(tail), is_root, compactions)

    def open(self, row: BlobRecord) -> Buffer:
        """The unsealed bytes of a row."""
        try:
            # Channel and version are part of the place; the next four columns are sealed too.
            place = ("blob", *self._place, *row[:2])
            return self._codec.unseal(row[6], place, row[2:6])
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel=row.channel) from None

    def _row(self, channel: str, version: str) -> BlobRecord:
        row = self._rows.get((channel, version))
        if row is None:
            raise self._broken(channel, version, "the row is gone")
        return row

    def _broken(self, channel: str, version: str, reason: str) -> BrokenChainError:
        return BrokenChainError(
            f"Version {version} of channel '{channel}' in thread '{self._place[0]}' cannot be "
            f"rebuilt: {reason}. Restore the row from a backup, or go on from an older checkpoint."
        )


def _whole(kind: str, data: Buffer) -> Rope | ListVersion:
    return whole(data) if kind == "msgpack" else Rope.of(data)


class LazyValue(CachedValue):
    """A cached version that was read. Its parts and chain are made when a run goes on from it."""

    __slots__ = ("_channel", "_made", "_resolver", "_was_read")

    def __init__(self, resolver: Resolver, channel: str, version: str, epoch: int | None) -> None:
        self.owner, self.epoch, self.version = None, epoch, version
        self._resolver: Resolver | None = resolver
        self._channel = channel
        self._made: tuple[Encoded, Chain] | None = None
        self._was_read = False
        self.size = resolver.size(channel, version)

    def _make(self) -> tuple[Encoded, Chain]:
        resolver, key = self._resolver, (self._channel, self.version)
        if self._made is None and resolver is not None:
            self._made = resolver.encoded(*key), resolver.chain(*key)
            self._resolver = None
        assert self._made is not None
        return self._made

    @property
    def encoded(self) -> Encoded:
        return self._make()[0]

    @encoded.setter
    def encoded(self, encoded: Encoded) -> None:
        self._made = (encoded, self._make()[1])

    @property
    def chain(self) -> Chain:  # type: ignore[override]
        return self._make()[1]

    @property
    def kind(self) -> str:
        resolver = self._resolver
        return self.encoded.kind if resolver is None else resolver.kind(self._channel, self.version)

    def pieces(self) -> Sequence[Buffer]:
        resolver = self._resolver
        if resolver is None:
            return super().pieces()
        return resolver.rope(self._channel, self.version).buffers()

    def decoded(self, codec: Codec, place: tuple[str, ...]) -> Any:
        if self._resolver is None:
            return super().decoded(codec, place)
        again, self._was_read = self._was_read, True

        def read() -> Any:
            return codec.decode(self.kind, self.pieces(), *place)

        return codec.read_again(self, self.size, read) if again else read()
