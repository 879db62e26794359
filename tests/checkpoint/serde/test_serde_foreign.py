"""Values of other libraries: numpy, pandas, polars, pyarrow and LangChain."""

import io
import struct
from typing import Any
from unittest.mock import Mock

import ormsgpack
import pytest

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import DeserializationError, SerializationError

SERDE = JsonPlusSerializer()


def again(value: Any) -> Any:
    """Through bytes and back, nested in a plain and in another container."""
    back = SERDE.loads_typed(SERDE.dumps_typed({"a": [(value,)]}))
    return back["a"][0][0]


np = pytest.importorskip("numpy")

ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(10)[::2],
    np.array(7),
    np.zeros((0, 3)),
    np.array(["a", "bcd"]),
    np.array([b"x\0"], dtype="S3"),
    np.array([1, "x", None, (2,)], dtype=object),
    np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", ">f8", (2,))]),
    np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.array([True, False]),
    np.array([1 + 2j], dtype="c8"),
    np.arange(3, dtype=">i2"),
    np.array([np.nan, -0.0, np.inf], dtype="f2"),
    np.array(["a", "long " * 20], dtype=np.dtypes.StringDType()),
    np.ones((2, 3, 4), order="F"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: str(a.dtype))
def test_an_array_is_read_with_its_type_shape_and_order(array: Any) -> None:
    back = again(array)
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.flags.writeable
    if array.flags.contiguous:
        assert back.flags.f_contiguous == array.flags.f_contiguous
    if array.dtype.kind in "OT":
        assert back.tolist() == array.tolist()
    else:
        assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "scalar",
    [np.float64(1.5), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.str_("x\0"), np.str_(""), np.bytes_(b"a\0"),
     np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.complex64(1), np.float16(0.5), np.longdouble(1) / 3,
     np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])[0]],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
def test_a_numpy_scalar_is_read_with_its_type(scalar: Any) -> None:
    back = again(scalar)
    assert type(back) is type(scalar)
    assert back.dtype == scalar.dtype
    assert back == scalar


def test_scalars_as_keys_and_dtypes_as_values() -> None:
    back = again({np.int64(3): 1, np.str_("k"): 2})
    assert [type(key) for key in back] == [np.int64, np.str_]
    assert again(np.dtype("<i4")) == np.dtype("<i4")


def test_subclasses_of_arrays_are_refused() -> None:
    with pytest.raises(SerializationError, match="asarray"):
        SERDE.dumps_typed(np.ma.masked_array([1, 2], [True, False]))
    with pytest.raises(SerializationError) as caught:
        SERDE.dumps_typed({"x": np.array([object()], dtype=object)})
    assert caught.value.path.startswith("x")


def test_pandas_frames_and_series_are_read_as_they_were_written() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "n": [1, 2],
            "f": [0.5, None],
            "s": ["x", None],
            "t": pd.to_datetime(["2020", "2021"], utc=True),
            "c": pd.Categorical(["a", "b"]),
        },
        index=pd.Index(["p", "q"], name="i"),
    )
    pd.testing.assert_frame_equal(again(frame), frame)
    pd.testing.assert_series_equal(again(frame["f"]), frame["f"])
    pd.testing.assert_series_equal(again(pd.Series([1, 2])), pd.Series([1, 2]))
    for bad in (
        pd.DataFrame({"a": [1, "x"]}),
        pd.DataFrame({"a": [object()]}),
        pd.DataFrame({"a": [(1, 2)]}),
    ):
        with pytest.raises(SerializationError, match="Arrow"):
            SERDE.dumps_typed(bad)


def test_polars_frames_and_series_are_read_as_they_were_written() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"a": [1, None], "b": ["x", "y"], "c": [[1], [2, 3]], "d": [{"k": 1}, {"k": 2}]}
    )
    back = again(frame)
    assert back.equals(frame)
    assert back.schema == frame.schema
    assert again(frame["c"]).equals(frame["c"])


def test_arrow_tables_and_batches_are_read_as_they_were_written() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, None], "b": [["x"], []]}, metadata={"k": "v"})
    assert again(table).equals(table, check_metadata=True)
    assert again(table.to_batches()[0]).equals(table.to_batches()[0])


def stored(kind: str, data: bytes) -> tuple[str, bytes]:
    payload = ormsgpack.packb([kind, data])
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(ext.ARROW, payload))


KINDS = ["pyarrow.Table", "pandas.DataFrame", "polars.DataFrame"]


def stream(table: Any, compression: str | None = None) -> bytes:
    pa = pytest.importorskip("pyarrow")
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write(table)
    return sink.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_more_than_its_bytes_is_refused(kind: str) -> None:
    for package in ("pyarrow", "pandas", "polars"):
        pytest.importorskip(package)
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": pa.array(range(104)), "b": pa.array(range(104))})
    data = stream(table)
    SERDE.loads_typed(stored(kind, data))
    for compression in ("zstd", "lz4"):
        with pytest.raises(DeserializationError, match="compressed"):
            SERDE.loads_typed(stored(kind, stream(table, compression)))
    buffers = struct.pack("<8q", 0, 0, 0, 832, 832, 0, 832, 832)
    shared = struct.pack("<8q", 0, 0, 0, 1664, 832, 0, 0, 1664)
    assert data.count(buffers) == 1
    with pytest.raises(DeserializationError, match="share their bytes"):
        SERDE.loads_typed(stored(kind, data.replace(buffers, shared)))
    with pytest.raises(DeserializationError, match="50000 elements"):
        SERDE.loads_typed(stored(kind, stream(pa.table({"a": pa.nulls(50_000)}))))
    for end in (0, 1, 8, 200, len(data) - 8, len(data) - 1):
        with pytest.raises(DeserializationError):
            SERDE.loads_typed(stored(kind, data[:end]))
    with pytest.raises(DeserializationError, match="follows"):
        SERDE.loads_typed(stored(kind, data + data))


def test_columns_of_nothing_are_refused_where_they_could_not_be_read_back() -> None:
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    nothing = [None] * 50_000
    beside = {"a": nothing, "b": np.arange(50_000.0)}
    pd.testing.assert_frame_equal(again(pd.DataFrame(beside)), pd.DataFrame(beside))
    for table in (
        pd.DataFrame({"a": nothing}),
        pl.DataFrame({"a": nothing}),
        pa.table({"a": nothing}),
    ):
        with pytest.raises(SerializationError, match="50000 elements in"):
            SERDE.dumps_typed(table)


def test_pandas_gets_no_columns_whose_elements_are_the_same_bytes() -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    entries = pa.dictionary(pa.int8(), pa.string())
    for column in (
        pa.array(["x"], pa.string_view()),
        pa.array([[1]], pa.list_view(pa.int8())),
        pa.array([["x"]], pa.list_(entries)),
        pa.array([{"k": "x"}], pa.struct([("k", entries)])),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x"], pa.string_view())),
    ):
        table = pa.table({"a": column})
        assert again(table).equals(table)
        with pytest.raises(DeserializationError, match="not one of pandas"):
            SERDE.loads_typed(stored("pandas.DataFrame", stream(table)))


def test_a_table_at_which_polars_panics_is_refused() -> None:
    pl = pytest.importorskip("polars")
    error = pl.exceptions.PanicException("at the disco")
    data = SERDE.dumps_typed(pl.DataFrame({"a": [1]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pl, "read_ipc_stream", Mock(side_effect=error))
        with pytest.raises(DeserializationError, match="polars cannot read the table"):
            SERDE.loads_typed(data)


def test_langchain_messages_and_documents() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    documents = pytest.importorskip("langchain_core.documents")
    call = {"name": "f", "args": {"q": (1,)}, "id": "c1", "type": "tool_call"}
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    values = [
        messages.HumanMessage("hi", id="1", name="n"),
        messages.HumanMessage(
            [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}]
        ),
        messages.AIMessage("", tool_calls=[call], usage_metadata=usage, response_metadata={"m": 1}),
        messages.AIMessageChunk("part", id="2"),
        messages.ToolMessage("r", tool_call_id="c1", artifact={"raw": (1, b"x")}, status="error"),
        messages.SystemMessage("s"),
        messages.ChatMessage("c", role="r"),
        messages.FunctionMessage("f", name="n"),
        messages.RemoveMessage(id="3"),
        documents.Document("text", metadata={"page": 1}, id="d"),
    ]
    back = again(values)
    assert back == values
    for one, other in zip(back, values, strict=True):
        assert type(one) is type(other)
        assert one.model_fields_set == other.model_fields_set
        assert one.__dict__ == other.__dict__
