"""UUIDs of version 6: sorted as text, they are in order of creation."""

from __future__ import annotations

import uuid

from milepost._internal import ids

__all__ = ["UUID", "uuid6"]


class UUID(uuid.UUID):
    """A UUID that knows the time in versions 6, 7 and 8 as well.

    Examples:
        >>> from milepost.checkpoint.base.id import uuid6
        >>> uuid6().version
        6
    """

    __slots__ = ()

    @property
    def subsec(self) -> int:
        """The part of a second that a version 8 UUID has, of 2**20."""
        return ((self.int >> 64) & 0x0FFF) << 8 | ((self.int >> 54) & 0xFF)

    @property
    def time(self) -> int:
        """100 ns since 1582 for versions 1 and 6, ms since 1970 for 7, ns since 1970 for 8."""
        if self.version == 6:
            return (self.int >> 80) << 12 | (self.int >> 64) & 0x0FFF
        if self.version == 7:
            return self.int >> 80
        if self.version == 8:
            return (self.int >> 80) * 10**6 + -(-self.subsec * 10**6 // 2**20)
        return super().time


def uuid6(node: int | None = None, clock_seq: int | None = None) -> UUID:
    """A new UUID, larger than those that this function made before.

    Args:
        node: Its last 48 bits; random by default.
        clock_seq: The 14 bits before them; random by default.

    Examples:
        >>> from milepost.checkpoint.base import uuid6
        >>> uuid6() < uuid6()
        True
    """
    value = int(ids.checkpoint_id(_newest[0]).replace("-", ""), 16)
    if clock_seq is not None:
        value = value & ~(0x3FFF << 48) | (clock_seq & 0x3FFF) << 48
    if node is not None:
        value = value & ~0xFFFF_FFFF_FFFF | node & 0xFFFF_FFFF_FFFF
    made = UUID(int=value)
    _newest[0] = str(made)
    return made


_newest = [""]
