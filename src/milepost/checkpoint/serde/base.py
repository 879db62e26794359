"""What a saver asks of a serializer, and what a serializer asks of a cipher.

A saver works with anything that has `dumps_typed` and `loads_typed`. Two more abilities are
optional, and the functions below use them where they are offered:

- *place binding* (`dumps_typed_at`, `loads_typed_at`): the value opens only where it was put.
- *encode and seal as two steps* (`encode`, `decode`, `seal`, `unseal`): a saver can store the
  difference between two encoded values and seal that. With `decode_pieces` it need not even join
  what it has put together from several rows: see the function of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class SerializerProtocol(Protocol):
    """Turns a value into a kind and bytes, and back.

    Examples:
        >>> import json
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> class Json:
        ...     def dumps_typed(self, obj):
        ...         return "json", json.dumps(obj).encode()
        ...     def loads_typed(self, data):
        ...         return json.loads(data[1])
        >>> saver = InMemorySaver(serde=Json())
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value as `(kind, data)`.

        Args:
            obj: The value.

        Raises:
            SerializationError: Something would be lost.
        """
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value that `dumps_typed` was given.

        Args:
            data: The kind and the bytes.

        Raises:
            DeserializationError: These bytes are not a value.
        """
        ...


class UntypedSerializerProtocol(Protocol):
    """The older form of a serializer, such as the module `pickle`: bytes without a kind.

    Examples:
        >>> import json
        >>> from milepost.checkpoint.serde.base import UntypedSerializerProtocol
        >>> class Json:
        ...     def dumps(self, obj):
        ...         return json.dumps(obj).encode()
        ...     def loads(self, data):
        ...         return json.loads(data)
        >>> older: UntypedSerializerProtocol = Json()
    """

    def dumps(self, obj: Any) -> bytes:
        """The value as bytes.

        Args:
            obj: The value.
        """
        ...

    def loads(self, data: bytes) -> Any:
        """The value that `dumps` was given.

        Args:
            data: The bytes.
        """
        ...


class SerializerCompat(SerializerProtocol):
    """A serializer in the older form, for a saver. The kind is the name of the value's type.

    Args:
        serde: The serializer in the older form.

    Examples:
        >>> import pickle
        >>> from milepost.checkpoint.serde.base import SerializerCompat
        >>> SerializerCompat(pickle).dumps_typed([1])[0]
        'list'
    """

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value as `(kind, data)`."""
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value that `dumps_typed` was given."""
        return self.serde.loads(data[1])


def maybe_add_typed_methods(
    serde: SerializerProtocol | UntypedSerializerProtocol,
) -> SerializerProtocol:
    """`serde` itself if a saver can use it as it is, and otherwise in a `SerializerCompat`.

    Args:
        serde: A serializer in one of the two forms.

    Examples:
        >>> import pickle
        >>> from milepost.checkpoint.serde.base import maybe_add_typed_methods
        >>> type(maybe_add_typed_methods(pickle)).__name__
        'SerializerCompat'
    """
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts and decrypts. It must authenticate: altered bytes must not decrypt.

    A cipher may also have `digests(message: bytes) -> Sequence[str]`: a keyed digest of a message
    under each of its keys, the newest first. `seal_thread_metadata` of a saver needs it.

    Examples:
        >>> from milepost.checkpoint.serde.base import CipherProtocol
        >>> from milepost.checkpoint.serde.encrypted import AesKeyRing
        >>> isinstance(AesKeyRing([b"0" * 32]), CipherProtocol)
        True
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name that `decrypt` will be given, and the ciphertext.

        Args:
            plaintext: The bytes.
        """
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plaintext.

        Args:
            ciphername: What `encrypt` returned with it.
            ciphertext: What `encrypt` returned.

        Raises:
            DecryptionError: The ciphertext or the key is not the right one.
        """
        ...


@runtime_checkable
class TwoStep(Protocol):
    """A serializer that encodes and seals separately. Sealing may be the identity.

    Examples:
        >>> from milepost.checkpoint.serde.base import TwoStep
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> isinstance(JsonPlusSerializer(), TwoStep)
        True
    """

    def encode(self, obj: Any) -> tuple[str, bytes]:
        """The value as `(kind, data)`, not yet sealed.

        Args:
            obj: The value.
        """
        ...

    def decode(self, kind: str, data: bytes) -> Any:
        """The value that `encode` was given.

        Args:
            kind: What `encode` returned.
            data: What `encode` returned.
        """
        ...

    def seal(self, data: bytes, place: str) -> bytes:
        """Bytes that open only at this place.

        Args:
            data: What `encode` returned.
            place: Where they are stored.
        """
        ...

    def unseal(self, data: bytes, place: str) -> bytes:
        """What was sealed at this place.

        Args:
            data: What `seal` returned.
            place: Where they are stored.
        """
        ...


def is_two_step(serde: object) -> TypeGuard[TwoStep]:
    """Whether `serde` offers encode, decode, seal and unseal.

    Args:
        serde: A serializer.

    Examples:
        >>> from milepost.checkpoint.serde.base import is_two_step
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> is_two_step(JsonPlusSerializer())
        True
    """
    return all(callable(getattr(serde, name, None)) for name in _TWO_STEP)


_TWO_STEP = ("encode", "decode", "seal", "unseal")


def decode_pieces(serde: TwoStep, kind: str, pieces: Sequence[bytes]) -> Any:
    """The value whose encoded bytes are these pieces, one after the other.

    Our serializers have a method `decode_pieces(kind, pieces)` that copies the bytes once; for
    any other they are joined first.

    Args:
        serde: The serializer.
        kind: The kind that `encode` returned.
        pieces: The bytes that `encode` returned, in pieces.

    Examples:
        >>> from milepost.checkpoint.serde.base import decode_pieces
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> serde = JsonPlusSerializer()
        >>> kind, data = serde.encode("Paris")
        >>> decode_pieces(serde, kind, [data[:2], data[2:]])
        'Paris'
    """
    read = getattr(serde, "decode_pieces", None)
    return serde.decode(kind, b"".join(pieces)) if read is None else read(kind, pieces)


def dumps_at(serde: SerializerProtocol, value: Any, place: str) -> tuple[str, bytes]:
    """Write `value` bound to `place` if `serde` can bind, and unbound otherwise.

    Args:
        serde: The serializer.
        value: The value.
        place: Where it is stored: other bytes at this place, or these at another, are refused.

    Examples:
        >>> from milepost.checkpoint.serde.base import dumps_at, loads_at
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> serde = JsonPlusSerializer()
        >>> loads_at(serde, dumps_at(serde, "Paris", "row 1"), "row 1")
        'Paris'
    """
    bound = getattr(serde, "dumps_typed_at", None)
    return serde.dumps_typed(value) if bound is None else bound(value, place)


def loads_at(serde: SerializerProtocol, data: tuple[str, bytes], place: str) -> Any:
    """Read what `dumps_at` wrote at `place`.

    Args:
        serde: The serializer.
        data: The kind and the bytes.
        place: Where it is stored.

    Examples:
        >>> from milepost.checkpoint.serde.base import dumps_at, loads_at
        >>> from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
        >>> serde = JsonPlusSerializer()
        >>> loads_at(serde, dumps_at(serde, "Paris", "row 1"), "row 1")
        'Paris'
    """
    bound = getattr(serde, "loads_typed_at", None)
    return serde.loads_typed(data) if bound is None else bound(data, place)
