from collections.abc import Callable, Sequence
from typing import Any, final, overload

def pack(value: Any, tuples: int, /) -> bytes | None: ...
def unpack(data: bytes | memoryview, hooks: tuple[Callable[[int, bytes], Any], ...], /) -> Any: ...
def unpack_pieces(
    pieces: Sequence[bytes | memoryview], hooks: tuple[Callable[[int, bytes], Any], ...], /
) -> Any: ...
def after(value: Any, tuples: int, base: object, keeps: bool, /) -> tuple[bytes, Packed] | None: ...
def cut_up(pieces: Sequence[bytes | memoryview], /) -> tuple[bytes, Packed] | None: ...
def copies(elements: list[Any], count: int, /) -> list[Any]: ...
def summed(
    data: bytes, place: tuple[str, ...], columns: tuple[str | int | None, ...], /
) -> bytes: ...
def holds(
    data: bytes, place: tuple[str, ...], columns: tuple[str | int | None, ...], /
) -> bool: ...
def steps(data: bytes | memoryview, /) -> list[bytes | memoryview | tuple[int, int]] | None: ...
def grow(
    rows: Sequence[tuple[Any, ...]],
    place: tuple[str, str, str],
    head: int,
    size: int,
    count: int,
    is_list: bool,
    /,
) -> tuple[list[bytes], list[int], list[bytes | memoryview]] | None: ...

SWIFT: bool

@final
class Packed(Sequence[bytes]):
    @property
    def size(self) -> int:
        """How many bytes all elements take."""

    @property
    def weight(self) -> int:
        """How much memory, about, with the values that are kept beside them."""

    def __len__(self) -> int: ...
    def made(self) -> list[dict[str, Any]] | None:
        """New dicts like those that were packed; None if they are not all flat, or not known."""

    @overload
    def __getitem__(self, at: int, /) -> bytes: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[bytes]: ...
    def span(self, start: int = ..., stop: int = ..., /) -> int:
        """How many bytes the elements from `start` to `stop` take."""

    def pieces(self, start: int = ..., stop: int = ..., /) -> list[bytes | memoryview]:
        """Their bytes, in pieces that are not copied."""

    def join(self, head: bytes, start: int = ..., stop: int = ..., /) -> bytes:
        """Their bytes in one piece, behind a head."""

    def lengths(self) -> list[int]:
        """How long each of them is."""

    def same(self, new: Packed, /) -> tuple[int, int]:
        """How many elements `new` has in common from the start, and of the others from the end."""

    def ends_with(self, other: Packed, /) -> bool:
        """Whether the last elements are these."""
