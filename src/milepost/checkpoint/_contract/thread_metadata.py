"""What the registry stores about a thread: a JSON object, parts of which may be sealed.

Sealed values are stored together under one key of the object:

    {"plan": "pro", "$sealed": {"values": "<base64>", "digests": ["<hex>", …]}}

`values` has the sealed keys with their values, sealed for this thread. `digests` has a keyed digest
of each key and value, of `tags` one for each tag, so that a thread is found by equality without
being opened. The owner's digest is in the column `owner` instead, which has an index. Equal values
of two threads have equal digests; without the key a digest says nothing else.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.threads import may_be_stored
from milepost.errors import DamagedRowError, DecryptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from milepost.checkpoint.serde.base import SerializerProtocol

SEALED: Final = "$sealed"


class ThreadOptions(TypedDict, total=False):
    """What every saver of ours can be told about its registry of threads."""

    thread_metadata: Sequence[str]
    """Keys of `config["metadata"]` that say something about the thread. The first commit of a run
    stores those that the run was given in the registry, beside what is there."""
    seal_thread_metadata: bool | Collection[str]
    """Whether metadata in the registry is sealed by the saver's encryption, or which keys of it."""


class StoredMetadata(NamedTuple):
    """The two columns of the registry."""

    owner: str | None
    text: str


class ThreadMetadata:
    """Turns what is said about threads into its stored form, and back."""

    def __init__(self, serde: Any, sealed: bool | Collection[str] = False) -> None:
        if isinstance(sealed, str):
            raise TypeError(f"seal_thread_metadata must be a list of keys, not text: [{sealed!r}].")
        self._serde = serde
        self._sealed = sealed
        self._digests = getattr(serde, "digests", None)
        if sealed and self._digests is None:
            raise ValueError(
                "seal_thread_metadata needs a key: pass serde=EncryptedSerializer(...). A cipher "
                "of your own needs the method `digests`, as AesKeyRing has it."
            )

    def stored(self, thread_id: str, metadata: Mapping[str, Any]) -> StoredMetadata:
        """The stored form; raises for what is no JSON that every database can hold."""
        return self._stored(thread_id, metadata, self._to_seal(metadata))

    def opened(self, thread_id: str, stored: Mapping[str, Any]) -> dict[str, Any]:
        """What was said about a thread."""
        if SEALED not in stored:
            return dict(stored)
        plain, secret = self._parts(thread_id, stored)
        return {**plain, **secret}

    def merged(
        self, thread_id: str, stored: Mapping[str, Any], more: Mapping[str, Any]
    ) -> StoredMetadata:
        """What is stored, with some keys new or replaced. What is sealed stays sealed."""
        plain, secret = self._parts(thread_id, stored)
        metadata = {**plain, **secret, **more}
        return self._stored(thread_id, metadata, {*secret, *self._to_seal(metadata)})

    def moved(self, source: str, target: str, stored: Mapping[str, Any]) -> StoredMetadata:
        """What is stored about one thread, for another."""
        plain, secret = self._parts(source, stored)
        return self._stored(target, {**plain, **secret}, secret)

    def is_current(self, stored: Mapping[str, Any]) -> bool | None:
        """Whether all that is to be sealed is sealed with the newest key; None if nothing is."""
        if any(key != SEALED for key in self._to_seal(stored)):
            return False
        if SEALED not in stored:
            return None
        current: bool = self._serde.is_current(_sealed_bytes(stored))
        return current

    def digests(self, key: str, value: Any) -> list[str]:
        """What a key with this value may be found by, under every key of the cipher."""
        return [] if self._digests is None else self._digests(_message(key, value))

    def _to_seal(self, metadata: Iterable[str]) -> Collection[str]:
        sealed = self._sealed
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
        """What is stored in clear, and what is sealed."""
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
    """What a user says of a thread, as JSON that every database can hold."""
    if (owner := metadata.get("owner")) is not None:
        check_name("owner", str(owner))
    if SEALED in metadata:
        raise ValueError(f"The metadata of thread '{thread_id}' cannot have the key '{SEALED}'.")
    try:
        text = json.dumps(dict(metadata), allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
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
    """What a sealed key is looked for by: of tags each, of everything else the whole."""
    value = secret[key]
    if key == "owner":
        return []  # which has a column of its own
    if key == "tags":
        return [tag for tag in value if isinstance(tag, str)] if isinstance(value, list) else []
    return [value]


def _message(key: str, value: Any) -> bytes:
    """What a digest is made of: the JSON tells 1 from true and from 1.0."""
    is_text = key in ("owner", "tags")
    return json.dumps([key, str(value) if is_text else value], sort_keys=True).encode()


def _place(thread_id: str) -> str:
    return f"thread\0{thread_id}"


def _sealed_bytes(stored: Mapping[str, Any]) -> bytes:
    try:
        return b64decode(stored[SEALED]["values"], validate=True)
    except (TypeError, KeyError, ValueError):
        return b""  # which does not open


def keys_of_thread(keys: Sequence[str]) -> tuple[str, ...]:
    """The option `thread_metadata`, checked."""
    if isinstance(keys, str):
        raise TypeError(f"thread_metadata must be a list of keys, not text: [{keys!r}].")
    return tuple(keys)


class SaverOptions(ThreadOptions, total=False):
    """What every saver of ours can be told."""

    serde: SerializerProtocol | None
    """Turns values into bytes and back."""


def check_options(options: SaverOptions) -> None:
    """Raise for options that no saver can be made with, before anything is opened for one."""
    keys_of_thread(options.get("thread_metadata", ()))
    ThreadMetadata(options.get("serde"), options.get("seal_thread_metadata", False))
