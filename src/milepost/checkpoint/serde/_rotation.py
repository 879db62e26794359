"""The result of sealing everything again with the newest key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

P = TypeVar("P")
Buffer: TypeAlias = bytes | memoryview


@dataclass(slots=True)
class Reencrypted(Generic[P]):
    """The counts of a re-encryption so far."""

    resealed: int = 0
    """How many rows were sealed again."""
    current: int = 0
    """How many had the newest key already."""
    refused: list[P] = field(default_factory=list)
    """Rows that do not open, and why. They are as they were."""

    def __bool__(self) -> bool:
        """True if nothing had to be done: every key but the newest can be dropped."""
        return not self.resealed and not self.refused


SEALED: Final = b"\xc1mp1"
"""What every sealed value begins with. No msgpack begins with 0xc1, so that it is never mistaken
for a plain one."""


def is_sealed(data: Buffer) -> bool:
    """Whether `data` is what EncryptedSerializer stores."""
    return data[: len(SEALED)] == SEALED


def rotates(serde: Any) -> bool:
    """Whether a serializer can tell if a value is sealed with its newest key."""
    return hasattr(serde, "is_current")


NOT_ENCRYPTED = (
    "Nothing is encrypted here, so there is nothing to encrypt again. Use"
    " serde=EncryptedSerializer(...); with allow_plaintext=True what is stored in the clear is"
    " sealed."
)
