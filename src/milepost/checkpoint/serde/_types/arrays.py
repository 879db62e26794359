"""numpy arrays, scalars and dtypes, of every dtype and memory order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib import format as npy
from ormsgpack import Ext

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import (
    BYTES,
    LIST,
    NUMBER,
    TEXT,
    check,
    check_all,
    fixed,
)

if TYPE_CHECKING:
    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import Reader, Writer


_NAMES: Final = frozenset({str, tuple})
_DESCRIPTIONS: Final = frozenset({str, list})
_SHAPE: Final = frozenset({tuple})


def writer_for(cls: type) -> Writer | None:
    """The writer of one of numpy's classes."""
    if cls is np.ndarray:
        return _write_array
    if issubclass(cls, np.generic):
        return _write_scalar
    if issubclass(cls, np.dtype):
        return _write_dtype
    if issubclass(cls, np.ndarray):
        raise Refused(
            f"a {cls.__module__}.{cls.__qualname__} would come back as a plain array; save"
            " np.asarray(value), or call register_type on it with encode and decode functions"
        )
    return None


def _description(dtype: Any) -> Any:
    """A dtype in the form of the .npy format, which is read without evaluating anything."""
    if dtype.kind == "T":
        if hasattr(dtype, "na_object"):
            raise Refused("a numpy StringDType with an na_object could not be read back")
        return "T"
    if dtype.hasobject and dtype.kind != "O":
        raise Refused(f"the numpy dtype {dtype} has Python objects inside a record")
    described = npy.dtype_to_descr(dtype)
    if npy.descr_to_dtype(described) != dtype:
        raise Refused(f"the numpy dtype {dtype} could not be read back exactly")
    return described


def _dtype(described: Any) -> Any:
    if type(described) is str:
        if described == "T":
            return np.dtypes.StringDType()
        # numpy takes other texts as well, and makes many fields of a few bytes of some.
        dtype = None if "," in described else np.dtype(described)
        if dtype is None or dtype.str != described:
            raise ValueError(f"{described[:40]!r} describes no dtype")
        return dtype
    _check_fields(described)
    return npy.descr_to_dtype(described)


def _check_fields(described: Any) -> None:
    """The description of a record: a tuple for each field, with its name, what it is, and perhaps
    the shape of an array inside it."""
    if type(described) is not list:
        raise TypeError(f"a {type(described).__qualname__} describes no dtype")
    for field in described:
        if type(field) is not tuple:
            raise TypeError(f"a {type(field).__qualname__} describes no field of a dtype")
        names, of, *shape = check(list(field), _NAMES, _DESCRIPTIONS, _SHAPE, least=2)
        if type(names) is tuple:
            check(list(names), TEXT, TEXT)
        for sizes in shape:
            check_all(sizes, NUMBER)
        if type(of) is str:
            _dtype(of)
        else:
            _check_fields(of)


def _write_dtype(value: Any, level: Level) -> Ext:
    return Ext(ext.DTYPE, level.pack(_description(value)))


def _write_array(value: Any, level: Level) -> Ext:
    described = _description(value.dtype)
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    if value.dtype.kind in "OT":
        body: Any = list(value.ravel(order).tolist())
        if value.dtype.kind == "O":
            body = list(value.ravel(order))
    elif value.dtype.itemsize == 0 and value.size:
        raise Refused("an array of elements without a size could not be read back")
    else:
        body = value.tobytes(order)
    return Ext(ext.NDARRAY, level.pack([described, list(value.shape), order, body]))


def _array(described: Any, shape: list[Any], order: Any, body: Any) -> Any:
    check_all(shape, NUMBER)
    if order not in ("C", "F"):
        raise ValueError("an array is stored in the order of its rows or of its columns")
    dtype = _dtype(described)
    if type(body) is list:
        if dtype.kind not in "OT":
            raise ValueError("a list where the bytes of an array were expected")
        if dtype.kind == "T":
            check_all(body, TEXT)
        flat = np.empty(len(body), dtype)
        for index, member in enumerate(body):
            flat[index] = member
        return flat.reshape(shape, order=order).copy(order=order)
    if dtype.hasobject or dtype.kind == "T":
        raise ValueError("bytes where the objects of an array were expected")
    if not body:
        if 0 not in shape:
            raise ValueError("an array without its bytes")
        return np.empty(shape, dtype, order)
    return np.frombuffer(body, dtype).reshape(shape, order=order).copy(order=order)


def _write_scalar(value: Any, level: Level) -> Ext:
    # Text is kept as text: as a fixed-width buffer it would lose trailing zeros.
    if type(value) is np.str_:
        return Ext(ext.NDSCALAR, level.pack(["str_", str.__add__(value, "")]))
    if type(value) is np.bytes_:
        return Ext(ext.NDSCALAR, level.pack(["bytes_", bytes(value)]))
    if value.dtype.hasobject:
        raise Refused("a numpy record with Python objects inside could not be read back")
    return Ext(ext.NDSCALAR, level.pack([_description(value.dtype), value.tobytes()]))


def _scalar(described: Any, body: Any) -> Any:
    if type(body) is str:
        if described != "str_":
            raise ValueError("text where the bytes of a numpy scalar were expected")
        return np.str_(body)
    if described == "bytes_":
        return np.bytes_(body)
    dtype = _dtype(described)
    if dtype.hasobject or len(body) != dtype.itemsize:
        raise ValueError("the bytes of a numpy scalar do not fit its dtype")
    return np.frombuffer(body, dtype)[0]


READERS: Final[dict[int, Reader]] = {
    ext.NDARRAY: fixed(_array, _DESCRIPTIONS, LIST, TEXT, BYTES | LIST),
    ext.NDSCALAR: fixed(_scalar, _DESCRIPTIONS, TEXT | BYTES),
    ext.DTYPE: lambda data, level: _dtype(level.unpack(data)),
}
