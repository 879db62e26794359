"""A serializer whose values others cannot read, alter or move.

The place where a value is stored is sealed with it, inside the plaintext, so binding works with
every cipher that authenticates. Opened at another place, the value is refused.

A sealed value is: mark, length of the cipher's name, that name, ciphertext. The plaintext is:
length of the place, the place, the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint.serde._rotation import SEALED
from milepost.checkpoint.serde.base import (
    CipherProtocol,
    SerializerProtocol,
    decode_pieces,
    is_two_step,
)
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing, check_key, key_from_environment
from milepost.errors import DecryptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.jsonplus import Allowed


class EncryptedSerializer:
    """Encodes with one serializer and seals with a cipher.

    A value that is not sealed is refused: anyone who can write to the storage could have put it
    there.

    Args:
        cipher: Encrypts and decrypts: an `AesKeyRing`, or one of your own.
        serde: Encodes; a `JsonPlusSerializer` by default.
        allow_plaintext: Let values that are not sealed be read while old ones are still to be
            sealed; switch it off when they are.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.checkpoint.serde.encrypted import AesKeyRing, EncryptedSerializer
        >>> ring = AesKeyRing({"2025": b"0" * 32, "2026": b"1" * 32})  # the last one writes
        >>> saver = InMemorySaver(serde=EncryptedSerializer(ring))
    """

    def __init__(
        self,
        cipher: CipherProtocol,
        serde: SerializerProtocol | None = None,
        *,
        allow_plaintext: bool = False,
    ) -> None:
        self.cipher = cipher
        self.serde: SerializerProtocol = JsonPlusSerializer() if serde is None else serde
        self.allow_plaintext = allow_plaintext

    @classmethod
    def from_pycryptodome_aes(
        cls,
        serde: SerializerProtocol | None = None,
        *,
        key: bytes | str | None = None,
        old_keys: Iterable[bytes] = (),
        allow_plaintext: bool = False,
    ) -> EncryptedSerializer:
        """AES with one key; values that were sealed with an older one are still read.

        Args:
            serde: Encodes; a `JsonPlusSerializer` by default.
            key: 16, 24 or 32 bytes; by default the key in MILEPOST_AES_KEY (or LANGGRAPH_AES_KEY).
            old_keys: Keys that are only read with.
            allow_plaintext: As for the class.

        Raises:
            MissingDependencyError: pycryptodome is not installed.
            ValueError: There is no key, or AES has no keys of this size.
        """
        newest = key_from_environment() if key is None else check_key(key)
        ring = AesKeyRing([*old_keys, newest])
        return cls(ring, serde, allow_plaintext=allow_plaintext)

    def with_msgpack_allowlist(self, extra_allowlist: Allowed) -> EncryptedSerializer:
        """A serializer that also reads these types, if the inner one has a list of them.

        Args:
            extra_allowlist: Classes, or pairs of a module and a name.
        """
        extend = getattr(self.serde, "with_msgpack_allowlist", None)
        inner = self.serde if extend is None else extend(extra_allowlist)
        if inner is self.serde:
            return self
        return EncryptedSerializer(self.cipher, inner, allow_plaintext=self.allow_plaintext)

    @property
    def level(self) -> Level:
        """The inner serializer's, for encoding element by element."""
        level: Level = self.serde.level  # type: ignore[attr-defined]
        return level

    @property
    def digests(self) -> Callable[[bytes], Sequence[str]] | None:
        """The cipher's keyed digests of a message, if it makes any: the newest key's first.

        By them a saver finds what it has sealed (see `seal_thread_metadata`).
        """
        return getattr(self.cipher, "digests", None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Sealed, but bound to no place: savers that know the place use `dumps_typed_at`.

        Args:
            obj: The value.
        """
        return self.dumps_typed_at(obj, "")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What `dumps_typed` wrote.

        Args:
            data: The kind and the bytes.

        Raises:
            DecryptionError: It is not sealed, or with another key.
        """
        return self.loads_typed_at(data, "")

    def dumps_typed_at(self, obj: Any, place: str) -> tuple[str, bytes]:
        """Sealed so that it opens only at `place`.

        Args:
            obj: The value.
            place: Where it is stored.
        """
        return self._seal_typed(*self.encode(obj), place)

    def loads_typed_at(self, data: tuple[str, bytes], place: str) -> Any:
        """What `dumps_typed_at` wrote at this place.

        Args:
            data: The kind and the bytes.
            place: Where it is stored.

        Raises:
            DecryptionError: It does not open here.
        """
        return self.decode(*self._open_typed(data, place))

    def encode(self, obj: Any) -> tuple[str, bytes]:
        """The first of two steps: encoded, not yet sealed.

        Args:
            obj: The value.
        """
        serde = self.serde
        return serde.encode(obj) if is_two_step(serde) else serde.dumps_typed(obj)

    def decode(self, kind: str, data: bytes) -> Any:
        """The value that `encode` was given.

        Args:
            kind: What `encode` returned.
            data: What `encode` returned.
        """
        serde = self.serde
        return serde.decode(kind, data) if is_two_step(serde) else serde.loads_typed((kind, data))

    def decode_pieces(self, kind: str, pieces: Sequence[bytes]) -> Any:
        """The same for encoded bytes that are in pieces.

        Args:
            kind: What `encode` returned.
            pieces: What `encode` returned, in pieces.
        """
        serde = self.serde
        if is_two_step(serde):
            return decode_pieces(serde, kind, pieces)
        return serde.loads_typed((kind, b"".join(pieces)))

    def seal(self, data: bytes, place: str) -> bytes:
        """The second step: encrypted, so that it opens only at `place`.

        Args:
            data: What `encode` returned.
            place: Where it is stored.
        """
        where = place.encode("utf-8", "surrogatepass")
        name, ciphertext = self.cipher.encrypt(
            b"".join((len(where).to_bytes(4, "big"), where, data))
        )
        return _begin(name) + ciphertext

    def unseal(self, data: bytes, place: str) -> bytes:
        """What was sealed at this place.

        Args:
            data: What `seal` returned.
            place: Where it is stored.

        Raises:
            DecryptionError: It does not open here.
        """
        return data if self.reads_plain(data) else self._open(data, place)

    def reads_plain(self, data: bytes) -> bool:
        """Whether `data` is not sealed, and read nevertheless: see `allow_plaintext`.

        Args:
            data: What is stored.
        """
        return self.allow_plaintext and not data.startswith(SEALED)

    def is_current(self, data: bytes) -> bool:
        """Whether `data`, or what begins like this, is sealed with the newest key.

        The newest is the one under whose name the cipher encrypts now: give every key its own.

        Args:
            data: What is stored, or its beginning.
        """
        newest = getattr(self.cipher, "name", None)
        if newest is None:
            newest = self.cipher.encrypt(b"")[0]
        return data.startswith(_begin(newest))

    def reseal(self, data: bytes, place: str, new_place: str | None = None) -> bytes:
        """`data` sealed with the newest key, at `new_place` if it moves.

        Args:
            data: What is stored.
            place: Where it is stored.
            new_place: Where it will be; the same place by default.
        """
        return self.seal(self.unseal(data, place), place if new_place is None else new_place)

    def reseal_typed(self, data: tuple[str, bytes], place: str) -> tuple[str, bytes]:
        """What `dumps_typed_at` wrote, sealed with the newest key.

        Args:
            data: The kind and the bytes.
            place: Where it is stored.
        """
        return self._seal_typed(*self._open_typed(data, place), place)

    def _open_typed(self, data: tuple[str, bytes], place: str) -> tuple[str, bytes]:
        """The kind and the bytes as they were before they were sealed, if they were."""
        kind, sealed = data
        inner, plus, _ = kind.rpartition("+")
        if plus:
            return inner, self._open(sealed, f"{place}\0{inner}")
        if not self.allow_plaintext:
            raise _plaintext()
        return kind, sealed

    def _seal_typed(self, kind: str, data: bytes, place: str) -> tuple[str, bytes]:
        # The kind is outside; bound like the place, it cannot be exchanged either.
        sealed = self.seal(data, f"{place}\0{kind}")
        return f"{kind}+{_cipher_name(sealed).partition(':')[0]}", sealed

    def _open(self, data: bytes, place: str) -> bytes:
        if not data.startswith(SEALED):
            raise _plaintext()
        name = _cipher_name(data)
        start = len(SEALED) + 1 + data[len(SEALED)]
        try:
            plain = self.cipher.decrypt(name, bytes(data[start:]))
        except DecryptionError:
            raise
        except Exception:
            # Not chained: what a foreign cipher says may quote what it was given.
            raise DecryptionError(
                "the sealed value does not open: the key is another one, or the bytes were altered"
            ) from None
        where = place.encode("utf-8", "surrogatepass")
        end = 4 + len(where)
        if plain[:end] != len(where).to_bytes(4, "big") + where:
            raise DecryptionError(
                "the sealed value belongs to another place: the row was moved or copied by hand;"
                " copy threads with the saver, which seals them again"
            )
        return plain[end:]


def _begin(name: str) -> bytes:
    """The first bytes of what is sealed under this name."""
    label = name.encode()
    if len(label) > 255:
        raise ValueError("a cipher's name has at most 255 bytes")
    return b"".join((SEALED, bytes((len(label),)), label))


def _cipher_name(data: bytes) -> str:
    start = len(SEALED) + 1
    try:
        return str(data[start : start + data[len(SEALED)]], "utf-8")
    except (IndexError, UnicodeDecodeError):
        raise DecryptionError("the sealed value is cut short or altered") from None


def _plaintext() -> DecryptionError:
    return DecryptionError(
        "the stored value is not encrypted, though this saver's values are; if it was written"
        " before encryption was switched on, read it with allow_plaintext=True and seal it with"
        " reencrypt()"
    )
