from collections.abc import Callable, Sequence
from typing import Any

def pack(value: Any, tuples: int, /) -> bytes | None: ...
def unpack_value(
    data: bytes | memoryview,
    hooks: tuple[Callable[[int, bytes], Any], ...],
    known: dict[str, Callable[[Any], Any]] = ...,
    /,
) -> Any: ...
def unpack_pieces(
    pieces: Sequence[bytes | memoryview],
    hooks: tuple[Callable[[int, bytes], Any], ...],
    known: dict[str, Callable[[Any], Any]] = ...,
    /,
) -> Any: ...
def pack_elements(
    value: Any, tuples: int, base: object, models: object, copy: object, /
) -> tuple[bytes, list[bytes], int] | None: ...
def copies(elements: list[Any], models: object, /) -> list[Any] | None: ...
def cut_up(data: bytes | memoryview, /) -> tuple[bytes, list[bytes]] | None: ...
