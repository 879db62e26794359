"""Thread metadata in the registry: a JSON object, parts of which may be sealed.

Sealed values are stored together under one key of the object:

    {"plan": "pro", "$sealed": {"values": "<base64>", "digests": ["<hex>", …]}}

`values` holds the sealed keys with their values, sealed for this thread. `digests` holds a keyed
digest of each key and value, and for `tags` a digest of each tag. So a query finds a thread by
equality without decrypting it. The owner's digest is in the indexed column `owner` instead. Equal
values of two threads have equal digests; without the encryption key, a digest reveals nothing else.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.threads import has_pairs, json_text, may_be_stored, tags_of
from milepost.errors import DamagedRowError, DecryptionError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from milepost.checkpoint.serde.base import SerializerProtocol

SEALED: Final = "$sealed"


class ThreadOptions(TypedDict, total=False):
    """Options of all our savers for the registry of threads."""

    thread_metadata: Iterable[str] | None
    """Keys of a run's metadata that describe the thread. The first commit of a run adds their
    values, from `config["metadata"]` or else from `configurable`, to the thread's metadata in the
    registry."""
    seal_thread_metadata: bool | Iterable[str] | None
    """Whether the saver's encryption seals metadata in the registry, or which keys it seals."""


class StoredMetadata(NamedTuple):
    """The columns `owner` and `metadata` of the registry."""

    owner: str | None
    text: str


class ThreadMetadata:
    """Turns thread metadata into the stored form and back."""

    def __init__(self, serde: Any, sealed: bool | Iterable[str] | None = False) -> None:
        self._serde = serde
        self.sealed = sealed = keys_to_seal(sealed)
        """Whether all keys are sealed, or which."""
        self._digests = getattr(serde, "digests", None)
        if sealed and self._digests is None:
            raise ValueError(
                "seal_thread_metadata needs a key: pass serde=EncryptedSerializer(...). A cipher "
                "of your own needs the method `digests`, as AesKeyRing has it."
            )

    def stored(self, thread_id: str, metadata: Mapping[str, Any]) -> StoredMetadata:
        """The stored form; raises for metadata that is not JSON, or that a database cannot hold."""
        return self._stored(thread_id, metadata, self._to_seal(metadata))

    def opened(self, thread_id: str, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata of a thread, from the stored form."""
        if SEALED not in stored:
            return dict(stored)
        plain, secret = self._parts(thread_id, stored)
        return {**plain, **secret}

    def judge(
        self, thread_id: str, stored: Mapping[str, Any], wanted: Mapping[str, Any]
    ) -> bool | None:
        """Whether the pairs of a filter hold for metadata in its stored form.

        None if that cannot be told: a key may be sealed, and what is sealed does not open.
        """
        verdict = _judge_in_clear(stored, wanted)
        if verdict is None:
            try:
                verdict = has_pairs(self.opened(thread_id, stored), wanted)
            except SerdeError:
                return None
        return verdict

    def unjudged(
        self, threads: Iterable[tuple[str, Mapping[str, Any]]], wanted: Mapping[str, Any]
    ) -> list[str]:
        """The threads for which `judge` is None, where the digests of the others were compared."""
        found: list[str] = []
        newest_opens = False
        for thread_id, stored in threads:
            if _judge_in_clear(stored, wanted) is not None:
                continue
            newest = self._digests is not None and self.is_current(stored) is True
            # One thread that opens shows that its key is here; to open all takes a hundred times
            # as long.
            if newest and newest_opens:
                continue
            if self.judge(thread_id, stored, wanted) is None:
                found.append(thread_id)
            else:
                newest_opens = newest_opens or newest
        return found

    def merged(
        self, thread_id: str, stored: Mapping[str, Any], more: Mapping[str, Any]
    ) -> StoredMetadata:
        """The stored form with some keys new or replaced. Sealed keys stay sealed."""
        plain, secret = self._parts(thread_id, stored)
        metadata = {**plain, **secret, **more}
        return self._stored(thread_id, metadata, {*secret, *self._to_seal(metadata)})

    def moved(self, source: str, target: str, stored: Mapping[str, Any]) -> StoredMetadata:
        """The stored form for a copy of the thread."""
        plain, secret = self._parts(source, stored)
        return self._stored(target, {**plain, **secret}, secret)

    def is_current(self, stored: Mapping[str, Any]) -> bool | None:
        """Whether all keys to seal are sealed with the newest key; None if no key is sealed."""
        if any(key != SEALED for key in self._to_seal(stored)):
            return False
        if SEALED not in stored:
            return None
        current: bool = self._serde.is_current(_sealed_bytes(stored))
        return current

    def digests(self, key: str, value: Any) -> list[str]:
        """The digests by which this key and value may be stored, one for each encryption key."""
        return [] if self._digests is None else self._digests(_message(key, value))

    def _to_seal(self, metadata: Iterable[str]) -> Collection[str]:
        sealed = self.sealed
        return [key for key in metadata if sealed is True or (sealed and key in sealed)]

    def _stored(
        self, thread_id: str, metadata: Mapping[str, Any], sealed: Collection[str]
    ) -> StoredMetadata:
        text = metadata_text(thread_id, metadata)
        owner = metadata.get("owner")
        found_by = None if owner is None else str(owner)
        if not sealed:
            return StoredMetadata(found_by, text)
        secret = {key: metadata[key] for key in sealed}
        if found_by is not None and "owner" in secret:
            found_by = self.digests("owner", owner)[0]
        values = json.dumps(secret, sort_keys=True).encode()
        block = {
            "values": b64encode(self._serde.seal(values, _place(thread_id))).decode(),
            "digests": [
                self.digests(key, one)[0] for key in sorted(secret) for one in _apart(key, secret)
            ],
        }
        plain = {key: value for key, value in metadata.items() if key not in secret}
        return StoredMetadata(found_by, json.dumps({**plain, SEALED: block}, sort_keys=True))

    def _parts(
        self, thread_id: str, stored: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The keys in plaintext, and the sealed keys, opened."""
        plain = {key: value for key, value in stored.items() if key != SEALED}
        if SEALED not in stored:
            return plain, {}
        if self._digests is None:
            raise DecryptionError(
                "its metadata is sealed, and this saver has no key: pass "
                "serde=EncryptedSerializer(...) with the one that it was written with"
            ).at(thread=thread_id)
        try:
            secret = json.loads(self._serde.unseal(_sealed_bytes(stored), _place(thread_id)))
        except DecryptionError as error:
            raise error.at(thread=thread_id) from None
        except ValueError:
            secret = None
        if not isinstance(secret, dict):
            raise DamagedRowError(
                f"The sealed metadata of thread '{thread_id}' in the registry (table `threads`) is "
                "damaged. Restore the row from a backup, or store it again with "
                "`set_thread_metadata`; the thread's checkpoints can be read."
            )
        return plain, secret


def metadata_text(thread_id: str, metadata: Mapping[str, Any]) -> str:
    """Thread metadata as JSON text; raises if a database could not hold the text."""
    if not isinstance(metadata, Mapping):
        raise TypeError(
            f"The metadata of thread '{thread_id}' must be a mapping of keys and plain JSON, as in "
            f"{{'owner': 'ann'}}, not {type(metadata).__name__}."
        )
    if (owner := metadata.get("owner")) is not None:
        check_name("owner", str(owner))
    if SEALED in metadata:
        raise ValueError(f"The metadata of thread '{thread_id}' cannot have the key '{SEALED}'.")
    try:
        text = json_text(dict(metadata))
    except ValueError as error:
        raise TypeError(
            f"The metadata of thread '{thread_id}' must be plain JSON: {error}."
        ) from error
    if not may_be_stored(text):
        raise ValueError(
            f"The metadata of thread '{thread_id}' contains a NUL character or half of a "
            "surrogate pair, which not every database can hold."
        )
    return text


def _apart(key: str, secret: Mapping[str, Any]) -> list[Any]:
    """The values of a sealed key that get a digest: each tag, or the whole value."""
    value = secret[key]
    if key == "owner":
        return []  # the owner's digest is in the column `owner`
    if key == "tags":
        return tags_of(value)
    return [value]


def _message(key: str, value: Any) -> bytes:
    """The bytes that a digest is made from. JSON tells 1 from true and from 1.0."""
    is_text = key in ("owner", "tags")
    return json.dumps([key, str(value) if is_text else value], sort_keys=True).encode()


def _judge_in_clear(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool | None:
    """Whether a filter holds by the keys in clear; None if one of its keys may be sealed."""
    in_clear = {key: value for key, value in wanted.items() if key in stored}
    if not has_pairs(stored, in_clear):
        return False
    if len(in_clear) == len(wanted):
        return True
    return None if SEALED in stored else False


def _place(thread_id: str) -> str:
    return f"thread\0{thread_id}"


def _sealed_bytes(stored: Mapping[str, Any]) -> bytes:
    try:
        return b64decode(stored[SEALED]["values"], validate=True)
    except (TypeError, KeyError, ValueError):
        return b""  # fails to unseal


def keys_of_thread(keys: Iterable[str] | None) -> tuple[str, ...]:
    """The option `thread_metadata`, checked. An iterator is read here, once."""
    return () if keys is None else _keys("thread_metadata", keys)


def keys_to_seal(sealed: bool | Iterable[str] | None) -> bool | tuple[str, ...]:
    """The option `seal_thread_metadata`, checked. An iterator is read here, once."""
    if sealed is None or isinstance(sealed, bool):
        return bool(sealed)
    return _keys("seal_thread_metadata", sealed)


def _keys(option: str, keys: Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"{option} must be a list of keys, not text: [{keys!r}].")
    try:
        named = tuple(keys)
    except TypeError:
        raise TypeError(f"{option} must be a list of keys, not {keys!r}.") from None
    for key in named:
        if not isinstance(key, str):
            raise TypeError(f"{option} must be a list of keys, which are texts, not {key!r}.")
    return named


class SaverOptions(ThreadOptions, total=False):
    """Options of all our savers."""

    serde: SerializerProtocol | None
    """Turns values into bytes and back."""


def checked_options(options: SaverOptions) -> SaverOptions:
    """The options; raises for invalid ones, before a database is opened."""
    checked = options.copy()
    if "thread_metadata" in options:
        checked["thread_metadata"] = keys_of_thread(options["thread_metadata"])
    if "seal_thread_metadata" in options:
        sealed = keys_to_seal(options["seal_thread_metadata"])
        ThreadMetadata(options.get("serde"), sealed)
        checked["seal_thread_metadata"] = sealed
    return checked
