"""AES with a ring of keys: the newest writes, every one on it reads."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import DecryptionError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME: Final = "aes"
_NONCE: Final = 16
_TAG: Final = 16
_VARIABLES: Final = ("MILEPOST_AES_KEY", "LANGGRAPH_AES_KEY")


class AesKeyRing:
    """A cipher: AES in EAX mode, which authenticates.

    The id of a key is stored beside each ciphertext, so that the right key is found at once. A key
    without an id of its own gets one that is derived from the key.

    Args:
        keys: Keys of 16, 24 or 32 bytes, oldest first, as a list or as a dict of ids; the last one
            is used to write.

    Raises:
        MissingDependencyError: pycryptodome is not installed.
        ValueError: There is no key, or AES has no keys of this size.

    Examples:
        >>> from milepost.checkpoint.serde.encrypted import AesKeyRing
        >>> ring = AesKeyRing({"2026": b"0" * 32})
        >>> name, sealed = ring.encrypt(b"Paris")
        >>> ring.decrypt(name, sealed)
        b'Paris'
    """

    def __init__(self, keys: Iterable[bytes] | Mapping[str, bytes]) -> None:
        self._keys: dict[str, bytes] = {}
        """Replaced, not changed: other threads encrypt and decrypt meanwhile."""
        named = keys.items() if hasattr(keys, "items") else ((None, key) for key in keys)
        for id, key in named:
            self.add(key, id=id)
        if not self._keys:
            raise ValueError("A key ring needs at least one key.")

    def add(self, key: bytes, *, id: str | None = None) -> str:
        """Put a key on the ring; from now on it is the one that writes. Returns its id.

        Args:
            key: 16, 24 or 32 bytes.
            id: Its name; by default derived from the key.
        """
        key = check_key(key)
        id = id or hashlib.sha256(b"milepost key id\0" + key).hexdigest()[:12]
        if ":" in id or len(id) > 100:
            raise ValueError("A key id must be short and without ':'.")
        if self._keys.get(id, key) != key:
            raise ValueError(f"Another key has the id {id!r} already.")
        self._keys = {**self._without(id), id: key}
        return id

    def drop(self, id: str) -> None:
        """Take a key off the ring; what is still sealed with it can no longer be read.

        Args:
            id: The name of the key.
        """
        if id not in self._keys:
            raise LookupError(f"No key on this ring has the id {id!r}.")
        if len(self._keys) == 1:
            raise ValueError("The last key must stay on the ring.")
        self._keys = self._without(id)

    def _without(self, id: str) -> dict[str, bytes]:
        return {other: key for other, key in self._keys.items() if other != id}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids on the ring, oldest first."""
        return tuple(self._keys)

    @property
    def name(self) -> str:
        """The name under which `encrypt` writes now."""
        return f"{_NAME}:{next(reversed(self._keys))}"

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name that `decrypt` will be given, and the ciphertext.

        Args:
            plaintext: The bytes.
        """
        id, key = next(reversed(self._keys.items()))
        name = f"{_NAME}:{id}"
        nonce = os.urandom(_NONCE)
        cipher = _aes(key, nonce, name)
        ciphertext, tag = cipher.encrypt_and_digest(plaintext)
        return name, nonce + tag + ciphertext

    def digests(self, message: bytes) -> list[str]:
        """A keyed digest of `message` under each key, the newest first.

        Equal messages have equal digests; nothing else can be told from one without the key.

        Args:
            message: The bytes.
        """
        keys = [hmac.digest(key, b"milepost digest key", "sha256") for key in self._keys.values()]
        return [hmac.digest(key, message, "sha256").hex() for key in reversed(keys)]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plaintext.

        Args:
            ciphername: What `encrypt` returned with it.
            ciphertext: What `encrypt` returned.

        Raises:
            DecryptionError: The bytes were altered, or their key is not on the ring.
        """
        method, _, id = ciphername.partition(":")
        if method != _NAME:
            raise DecryptionError(f"this key ring opens {_NAME!r}, not {method[:40]!r}")
        key = self._keys.get(id)
        if key is None:
            raise DecryptionError(
                f"the value is sealed with the key {id[:100]!r}, which is not on the ring; add"
                " that key to read it"
            )
        nonce, tag = ciphertext[:_NONCE], ciphertext[_NONCE : _NONCE + _TAG]
        if len(tag) != _TAG:
            raise DecryptionError("the sealed value is cut short")
        cipher = _aes(key, nonce, ciphername)
        try:
            plaintext: bytes = cipher.decrypt_and_verify(ciphertext[_NONCE + _TAG :], tag)
        except ValueError:
            raise DecryptionError(
                "the sealed value does not open: the key is another one, or the bytes were altered"
            ) from None
        return plaintext


def _aes(key: bytes, nonce: bytes, name: str) -> Any:
    try:
        from Crypto.Cipher import AES  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingDependencyError(
            'Encryption needs pycryptodome: pip install "milepost[crypto]"'
        ) from error
    cipher = AES.new(key, AES.MODE_EAX, nonce=nonce, mac_len=_TAG)
    cipher.update(name.encode())
    return cipher


def check_key(key: object) -> bytes:
    """The key as bytes.

    Args:
        key: 16, 24 or 32 bytes, or text of so many.

    Raises:
        ValueError: AES has no keys of this size.

    Examples:
        >>> from milepost.checkpoint.serde.encrypted import check_key
        >>> len(check_key(b"0" * 32))
        32
    """
    key = key.encode() if isinstance(key, str) else key
    if not isinstance(key, (bytes, bytearray)) or len(key) not in (16, 24, 32):
        raise ValueError("An AES key has 16, 24 or 32 bytes; make one with os.urandom(32).")
    return bytes(key)


def key_from_environment() -> bytes:
    """The key in MILEPOST_AES_KEY, or in LANGGRAPH_AES_KEY.

    Raises:
        ValueError: Neither is set, or AES has no keys of this size.

    Examples:
        >>> import os
        >>> from milepost.checkpoint.serde.encrypted import key_from_environment
        >>> os.environ["MILEPOST_AES_KEY"] = "0" * 32
        >>> len(key_from_environment())
        32
        >>> del os.environ["MILEPOST_AES_KEY"]
    """
    for variable in _VARIABLES:
        text = os.environ.get(variable)
        if text:
            try:
                return check_key(text)
            except ValueError as error:
                raise ValueError(f"{variable}: {error}") from None
    raise ValueError(f"Pass key=..., or set {_VARIABLES[0]} to 16, 24 or 32 characters.")
