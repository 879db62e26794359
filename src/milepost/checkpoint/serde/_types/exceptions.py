"""Exceptions: exact where the class is known, and an honest stand-in where it is not.

An exception is stored as the name of its class, its message, its arguments and its attributes;
cause, context and traceback are not stored. Reading gives back built-in exceptions, milepost's
own, and registered classes; anything else comes back as a RemoteError.
"""

from __future__ import annotations

import builtins
from collections import deque
from typing import TYPE_CHECKING, Any

import ormsgpack
from ormsgpack import Ext

from milepost import errors
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import ANY, FIELDS, LIST, TEXT, check
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde._types.fields import Codec
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

_MARK = frozenset({bool})
_DEEPEST = 10
"""So many exceptions inside each other are kept; of the next one, its repr."""
_LONGEST = 2_000
"""Characters of a repr that are stored."""
_SHOWN = "repr"
"""The name, among the attributes of a stand-in, of the repr of what it replaces."""
_FIXED = {"builtins": builtins, "milepost.errors": errors}
"""Modules whose exception classes may be looked up by a stored name: both are imported here."""


class RemoteError(MilepostError):
    """Replaces an exception that could not be stored or read back as itself.

    `type_name` is the class it had (`module:name`), `message` what it said, `arguments` what it
    was raised with, each as itself if that could be stored and as its repr if not. `shown` is its
    repr, if its class makes one of its own.
    """

    def __init__(
        self,
        type_name: str,
        message: str,
        arguments: tuple[Any, ...] = (),
        shown: str | None = None,
    ) -> None:
        super().__init__(type_name, message, arguments)
        self.type_name = type_name
        self.message = message
        self.arguments = arguments
        self.shown = shown

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"

    def __repr__(self) -> str:
        """As the repr of the exception was: programs look for its class in `task.error`."""
        if self.shown is not None:
            return self.shown
        name = self.type_name.rpartition(":")[2].rpartition(".")[2]
        told = self.arguments or ((self.message,) if self.message else ())
        return f"{name}({', '.join(map(repr, told))})"


def fixed_class(name: str) -> type[BaseException] | None:
    """The built-in exception class, or milepost's own, of this name."""
    module, _, qualname = name.partition(":")
    found = getattr(_FIXED.get(module), qualname, None)
    if isinstance(found, type) and issubclass(found, BaseException) and found.__name__ == qualname:
        return found
    return None


def of_exception(cls: type[BaseException]) -> Codec:
    """How the instances of an exception class become values and back, without `__init__`."""
    base: Any = next(c for c in cls.__mro__ if c.__module__ == "builtins")

    def make(arguments: Sequence[Any], attributes: dict[str, Any]) -> BaseException:
        error = cls.__new__(cls, *arguments)
        # A built-in __init__ only stores its arguments; the user's may do anything.
        base.__init__(error, *arguments)
        # Past the class, which may be frozen.
        if not issubclass(base, OSError):
            _ARGS.__set__(error, tuple(arguments))
        for name, value in attributes.items():
            if name in _KEPT:
                object.__setattr__(error, name, value)
            else:
                error.__dict__[name] = value
        return error

    def encode(error: Any) -> Any:
        reduced = _reduced(error, base)
        if not _takes(base, reduced):
            raise Refused("it was raised with something that could not be read back safely")
        attributes = _attributes(error, base)
        try:
            make(reduced, attributes)
        except Exception:  # as of pydantic's ValidationError, which has no arguments
            raise Refused("its class cannot make it again from its arguments") from None
        return [message_of(error), list(reduced), attributes]

    def decode(payload: Any) -> Any:
        _, arguments, attributes = _parts(payload)
        if not _takes(base, arguments):
            raise TypeError(f"{base.__name__} is made of other arguments")
        return make(arguments, attributes)

    return encode, decode


_ARGS: Any = vars(BaseException)["args"]
_KEPT = {"name", "path"}
_COPIED = (SyntaxError, BaseExceptionGroup)
"""What copies the members of its second argument."""
_MEMBERS = frozenset({list, tuple, deque, str})


def _takes(base: type, arguments: Sequence[Any]) -> bool:
    """Whether making the exception takes no more than its arguments do."""
    return not issubclass(base, _COPIED) or all(type(one) in _MEMBERS for one in arguments[1:2])


def _parts(payload: Any) -> list[Any]:
    """Message, arguments and attributes."""
    return check(payload, TEXT, LIST, FIELDS)


def _reduced(error: BaseException, base: Any) -> tuple[Any, ...]:
    """The arguments that make it again: OSError hides the file names that it was given."""
    if issubclass(base, (OSError, BaseExceptionGroup)):
        arguments: tuple[Any, ...] = base.__reduce__(error)[1]
        return arguments
    return error.args


def _attributes(error: BaseException, base: type) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    if issubclass(base, ImportError):
        kept = {name: getattr(error, name) for name in _KEPT}
    elif issubclass(base, (NameError, AttributeError)):
        kept = {"name": error.name}  # type: ignore[attr-defined]
    given = {name: value for name, value in kept.items() if value is not None}
    return {**error.__dict__, **given}


def message_of(error: BaseException) -> str:
    """What the exception says; a `__str__` that fails must not hide it."""
    try:
        text = str(error)
    except Exception as second:
        text = f"<its __str__ raised {type(second).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()


def write_remote(error: RemoteError, level: Level) -> Ext:
    """A stand-in is stored under the name of what it replaces, marked as one."""
    prefix = b"\x93" + ormsgpack.packb(error.type_name) + b"\xc3"
    attributes = {} if error.shown is None else {_SHOWN: error.shown}
    return Ext(ext.ERROR, prefix + level.pack([error.message, list(error.arguments), attributes]))


def read_error(data: bytes, level: Level) -> BaseException:
    """The exception itself if its class is known here, a RemoteError otherwise."""
    tag, stand_in, payload = check(level.unpack(data), TEXT, _MARK, ANY)
    registry = level.registry
    decode = None if stand_in else registry.error_decoder(tag)
    if decode is not None:
        error: BaseException = decode(payload)
        return error
    message, arguments, attributes = _parts(payload)
    shown = None
    if stand_in and attributes:  # those of an exception that was stored as itself are its own
        [shown] = check([attributes[_SHOWN]], TEXT)
    return RemoteError(tag, message, tuple(arguments), shown)


def storable_error(error: BaseException, registry: TypeRegistry | None = None) -> BaseException:
    """`error` if it can be stored as it is, and otherwise a RemoteError that can.

    A failure must be recorded whatever it holds, so this never raises.
    """
    if registry is None:
        from milepost.checkpoint.serde.registry import default_registry

        registry = default_registry
    if registry._is_allowed(type(error)) and _packs(error, registry):
        return error
    return _stand_in(error, registry)


def stand_in_writer(registry: TypeRegistry) -> Writer:
    """Writes exceptions of a class that is not registered as RemoteErrors."""
    return lambda error, level: write_remote(_stand_in(error, registry), level)


def _stand_in(error: BaseException, registry: TypeRegistry, depth: int = 0) -> RemoteError:
    """`depth`: so many exceptions have this one among their arguments."""
    cls = type(error)
    arguments = tuple(_argument(one, registry, depth + 1) for one in error.args)
    name = f"{cls.__module__}:{cls.__qualname__}".encode("utf-8", "backslashreplace").decode()
    made = RemoteError(name, message_of(error), arguments)
    own = _safe_repr(error)
    if own != repr(made):
        made.shown = own if len(own) <= _LONGEST else f"{own[:_LONGEST]}…"
    return made


def _argument(value: Any, registry: TypeRegistry, depth: int) -> Any:
    """An argument of an exception, as it is stored with the exception's stand-in."""
    if isinstance(value, BaseException):  # without a warning: it is part of a failure
        if depth > _DEEPEST:  # exceptions may name each other
            return _safe_repr(value)[:_LONGEST]
        if not (registry._is_allowed(type(value)) and _packs(value, registry)):
            value = _stand_in(value, registry, depth)
    return value if _packs(value, registry) else _safe_repr(value)[:_LONGEST]


def _packs(value: Any, registry: TypeRegistry) -> bool:
    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde._msgpack.engine import pack

    try:
        pack(Level(registry), [value])  # one deeper: as an argument it will be inside something
    except Exception:
        return False
    return True


def _safe_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__module__}.{type(value).__qualname__}>"
    return text.encode("utf-8", "backslashreplace").decode()


def writer_for(cls: type[BaseException], registry: TypeRegistry) -> Writer | None:
    """The writer of a built-in exception class or one of ours; None for any other."""
    if cls is RemoteError:
        return write_remote
    name = f"{cls.__module__}:{cls.__qualname__}"
    if fixed_class(name) is not cls:
        return None
    registry.register(cls, name=name)
    return registry.writers[cls]
