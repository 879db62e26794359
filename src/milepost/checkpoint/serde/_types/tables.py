"""pandas, polars and pyarrow tables, stored as Arrow.

Arrow holds less than pandas does, so what is written from pandas is read back at once and
compared: a table that would come back changed is refused, as any other value is.

A stream is looked through before a library reads it. Arrow can say much in few bytes: its buffers
can be compressed, several columns can share one, and columns of nothing can be of any length. Our
writers do none of that, apart from short columns of nothing. So what a stream holds is in
proportion to its size, or it is refused.
"""

from __future__ import annotations

import io
import struct
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ormsgpack import Ext

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import BYTES, TEXT, fixed
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import Reader, Writer

_OLDEST_PYARROW: Final = (14, 0, 1)
"""Older ones load pickle out of Arrow metadata (CVE-2023-47248)."""

_DICTIONARY: Final = "dictionary<"
_REPEATING: Final = (
    _DICTIONARY,
    "binary_view",
    "large_list_view",
    "list_view",
    "run_end_encoded",
    "string_view",
)
"""Types of which several elements may be the same bytes. pandas would have these for each of them,
but keeps a column of a dictionary as such."""
_MARKED: Final = "pandas.Series"
"""The class whose stream has a byte before it."""


def writer_for(cls: type) -> Writer | None:
    """The writer of one of these packages' table classes."""
    package = cls.__module__.partition(".")[0]
    kind = f"{package}.{cls.__name__}"
    if kind not in _KINDS:
        if package != "pandas":
            return None
        from milepost.checkpoint.serde._types import pandas_times

        return pandas_times.writer_for(cls)
    to_bytes, _ = _KINDS[kind]

    def writer(value: Any, level: Level) -> Ext:
        data = to_bytes(value)
        try:
            _check_stream(data[1:] if kind == _MARKED else data)
        except ValueError as error:
            raise Refused(f"{error}, which would not be read back") from error
        return Ext(ext.ARROW, level.pack([kind, data]))

    return writer


def _arrow() -> Any:
    arrow = _needed("pyarrow")
    version = tuple(int(part) for part in arrow.__version__.split(".")[:3] if part.isdigit())
    if version < _OLDEST_PYARROW:
        raise DeserializationError("this pyarrow runs pickle when it reads; update it to 14.0.1")
    import_module("pyarrow.ipc")
    return arrow


def _needed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise DeserializationError(
            f"tables are stored as Arrow; run `pip install {package}` to write and read them"
        ) from error


def _arrow_bytes(table: Any) -> bytes:
    arrow = _arrow()
    sink = io.BytesIO()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


def _arrow_table(data: bytes) -> Any:
    _check_stream(data)
    table = _arrow().ipc.open_stream(io.BytesIO(data)).read_all()
    table.validate(full=True)
    return table


def _arrow_batch(data: bytes) -> Any:
    (batch,) = _arrow_table(data).combine_chunks().to_batches() or [None]
    return batch


def _frame_bytes(frame: Any) -> bytes:
    arrow = _arrow()
    try:
        data = _arrow_bytes(arrow.Table.from_pandas(frame))
        again = _frame(data)
        same = (
            again.equals(frame)
            and again.dtypes.equals(frame.dtypes)
            and _same_axis(again.index, frame.index)
            and _same_axis(again.columns, frame.columns)
            and again.attrs == frame.attrs
        )
    except Exception as error:
        raise Refused(f"pandas cannot put this frame into Arrow: {error}") from error
    if not same:
        raise Refused(
            "this pandas frame would come back from Arrow changed (mixed types in a column, or"
            " labels or an index that Arrow has no type for); save frame.to_dict() instead"
        )
    return data


def _same_axis(one: Any, other: Any) -> bool:
    return bool(
        type(one) is type(other)
        and one.equals(other)
        and list(one.names) == list(other.names)
        and getattr(one, "dtype", None) == getattr(other, "dtype", None)
        and list(map(type, one)) == list(map(type, other))
    )


def _frame(data: bytes) -> Any:
    _needed("pandas")
    table = _arrow_table(data)
    for column in table.schema.types:
        inside = column.value_type if str(column).startswith(_DICTIONARY) else column
        if any(str(part).startswith(_REPEATING) for part in _parts(inside)):
            raise ValueError(f"a column of {str(column)[:80]} is not one of pandas")
    return table.to_pandas()


def _parts(column: Any) -> Iterator[Any]:
    """A type of Arrow's, and the types inside it."""
    yield column
    inside = [column.field(n).type for n in range(column.num_fields)]
    for name in ("value_type", "storage_type"):
        if hasattr(column, name):
            inside.append(getattr(column, name))
    for part in inside:
        yield from _parts(part)


def _series_bytes(series: Any) -> bytes:
    if series.attrs:
        raise Refused("a pandas Series with attrs could not be read back; save a DataFrame")
    named = b"\x01" if series.name is not None else b"\x00"
    if series.name is not None and type(series.name) is not str:
        raise Refused("the name of a pandas Series must be text to be read back")
    return named + _frame_bytes(series.to_frame("0" if series.name is None else series.name))


def _series(data: bytes) -> Any:
    series = _frame(data[1:]).iloc[:, 0]
    return series.rename(None) if data[:1] == b"\x00" else series


def _polars_bytes(frame: Any) -> bytes:
    sink = io.BytesIO()
    try:
        frame.write_ipc_stream(sink)
    except Exception as error:
        raise Refused(f"polars cannot put this frame into Arrow: {error}") from error
    return sink.getvalue()


def _polars_frame(data: bytes) -> Any:
    polars = _needed("polars")
    _check_stream(data)
    try:
        return polars.read_ipc_stream(io.BytesIO(data))
    except polars.exceptions.PanicException as error:  # which is no Exception
        raise ValueError(f"polars cannot read the table: {error}") from error


_KINDS: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]] = {
    "pyarrow.Table": (_arrow_bytes, _arrow_table),
    "pyarrow.RecordBatch": (
        lambda batch: _arrow_bytes(_arrow().Table.from_batches([batch])),
        _arrow_batch,
    ),
    "pandas.DataFrame": (_frame_bytes, _frame),
    _MARKED: (_series_bytes, _series),
    "polars.DataFrame": (_polars_bytes, _polars_frame),
    "polars.Series": (
        lambda series: _polars_bytes(series.to_frame()),
        lambda data: _polars_frame(data).to_series(0),
    ),
}
"""Package and class of a table, and what makes bytes of it and the table again."""


READERS: Final[dict[int, Reader]] = {
    ext.ARROW: fixed(lambda kind, body: _KINDS[kind][1](body), TEXT, BYTES)
}


# -- what a stream says of itself

_GOES_ON: Final = 0xFFFFFFFF
_SCHEMA, _DICTIONARIES, _BATCH = 1, 2, 3
"""Kinds of messages."""
_KIND, _HEADER, _BODY = 1, 2, 3
"""Fields of a message."""
_DATA: Final = 1
"""Field of a message with a dictionary: the batch that has its values."""
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3
"""Fields of a batch."""
_PER_BYTE: Final = 64
"""Elements that a byte may hold. Eight booleans are in one; the rest is for columns that hold
nothing, beside others or alone."""


def _check_stream(data: bytes) -> None:
    """ValueError if the stream is not one that is written here, or of more than its bytes."""
    elements = 0
    try:
        for batch, size in _batches(data):
            if batch.offset(_COMPRESSION):
                raise ValueError("the table is compressed")
            if sum(length for _, length in batch.pairs(_BUFFERS)) > size:
                raise ValueError("columns of the table share their bytes")
            nodes = sum(length for length, _ in batch.pairs(_NODES))
            elements += max(nodes, batch.number(_LENGTH, "<q"))
    except struct.error:
        raise ValueError("the table ends too soon") from None
    if elements > _PER_BYTE * len(data):
        raise ValueError(f"the table is of {elements} elements in {len(data)} bytes")


def _batches(data: bytes) -> Iterator[tuple[_Table, int]]:
    """Each batch of a stream, and how many bytes its buffers have."""
    at = 0
    while at < len(data):
        mark, size = struct.unpack_from("<II", data, at)
        if mark != _GOES_ON:
            raise ValueError("the table is in another form than it is written in")
        at += 8
        if not size:
            if at != len(data):
                raise ValueError("something follows the table")
            return
        message = _Table.root(data[at : at + size])
        at += size
        kind, body = message.number(_KIND, "<B"), message.number(_BODY, "<q")
        if not 0 <= body <= len(data) - at:
            raise ValueError("the table ends too soon")
        if kind in (_DICTIONARIES, _BATCH):
            batch = message.table(_HEADER)
            yield (batch.table(_DATA) if kind == _DICTIONARIES else batch), body
        elif kind != _SCHEMA:
            raise ValueError(f"a message of kind {kind} in a table")
        at += body
    raise ValueError("the table ends too soon")


class _Table:
    """A table of a flatbuffer, which is how Arrow writes what its messages say."""

    __slots__ = ("_at", "_data", "_fields")

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        index = at - self._number("<i", at)
        self._fields = range(index + 4, index + self._number("<H", index), 2)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, *struct.unpack_from("<I", data))

    def offset(self, field: int) -> int:
        """Where a field is, from the start of the table; 0 if it is not there."""
        return self._number("<H", self._fields[field]) if field < len(self._fields) else 0

    def number(self, field: int, form: str) -> int:
        """A number; 0 if it is not there."""
        at = self.offset(field)
        return self._number(form, self._at + at) if at else 0

    def table(self, field: int) -> _Table:
        """A table, which must be there."""
        return _Table(self._data, self._far(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Pairs of numbers; none of them may be less than nothing."""
        if not self.offset(field):
            return []
        at = self._far(field)
        size = 16 * self._number("<I", at)
        found = list(struct.iter_unpack("<qq", self._slice(at + 4, size)))
        if any(first < 0 or second < 0 for first, second in found):
            raise ValueError("a size in the table is less than nothing")
        return found

    def _far(self, field: int) -> int:
        at = self._at + self.offset(field)
        return at + self._number("<I", at)

    def _number(self, form: str, at: int) -> int:
        found: int = struct.unpack(form, self._slice(at, struct.calcsize(form)))[0]
        return found

    def _slice(self, at: int, size: int) -> bytes:
        if at < 0 or at + size > len(self._data):
            raise ValueError("the table ends too soon")
        return self._data[at : at + size]
