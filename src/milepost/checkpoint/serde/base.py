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
    """Turns a value into a kind and bytes, and back."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value as `(kind, data)`; raises SerializationError rather than lose something."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value that `dumps_typed` was given."""
        ...


class UntypedSerializerProtocol(Protocol):
    """The older form of a serializer, such as the module `pickle`: bytes without a kind."""

    def dumps(self, obj: Any) -> bytes:
        """The value as bytes."""
        ...

    def loads(self, data: bytes) -> Any:
        """The value that `dumps` was given."""
        ...


class SerializerCompat(SerializerProtocol):
    """A serializer in the older form, for a saver. The kind is the name of the value's type."""

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
    """`serde` itself if a saver can use it as it is, and otherwise in a `SerializerCompat`."""
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts and decrypts. It must authenticate: altered bytes must not decrypt.

    A cipher may also have `digests(message: bytes) -> Sequence[str]`: a keyed digest of a message
    under each of its keys, the newest first. `seal_thread_metadata` of a saver needs it.
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name that `decrypt` will be given, and the ciphertext."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plaintext; raises if the ciphertext or the key is not the right one."""
        ...


@runtime_checkable
class TwoStep(Protocol):
    """A serializer that encodes and seals separately. Sealing may be the identity."""

    def encode(self, obj: Any) -> tuple[str, bytes]: ...

    def decode(self, kind: str, data: bytes) -> Any: ...

    def seal(self, data: bytes, place: str) -> bytes: ...

    def unseal(self, data: bytes, place: str) -> bytes: ...


def is_two_step(serde: object) -> TypeGuard[TwoStep]:
    """Whether `serde` offers encode, decode, seal and unseal."""
    return all(callable(getattr(serde, name, None)) for name in _TWO_STEP)


_TWO_STEP = ("encode", "decode", "seal", "unseal")


def decode_pieces(serde: TwoStep, kind: str, pieces: Sequence[bytes]) -> Any:
    """The value whose encoded bytes are these pieces, one after the other.

    Our serializers have a method `decode_pieces(kind, pieces)` that copies the bytes once; for
    any other they are joined first.
    """
    read = getattr(serde, "decode_pieces", None)
    return serde.decode(kind, b"".join(pieces)) if read is None else read(kind, pieces)


def dumps_at(serde: SerializerProtocol, value: Any, place: str) -> tuple[str, bytes]:
    """Write `value` bound to `place` if `serde` can bind, and unbound otherwise."""
    bound = getattr(serde, "dumps_typed_at", None)
    return serde.dumps_typed(value) if bound is None else bound(value, place)


def loads_at(serde: SerializerProtocol, data: tuple[str, bytes], place: str) -> Any:
    """Read what `dumps_at` wrote at `place`."""
    bound = getattr(serde, "loads_typed_at", None)
    return serde.loads_typed(data) if bound is None else bound(data, place)
