"""A failure is always recorded: as itself where that is possible, honestly where it is not."""

import sys
import warnings
from typing import Any

import pytest

from milepost.checkpoint.serde._types.exceptions import RemoteError, storable_error
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import GraphRecursionError, NodeError, SerializationError


class Custom(Exception):
    calls = 0

    def __init__(self, code: int, *, detail: Any = None) -> None:
        type(self).calls += 1
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


class Refused(OSError):
    def __init__(self, code: int) -> None:
        super().__init__(f"refused: {code}")
        self.code = code

    def __reduce__(self) -> Any:
        return type(self), (self.code,)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def own() -> JsonPlusSerializer:
    registry = TypeRegistry()
    registry.register_module_types(sys.modules[__name__])
    return JsonPlusSerializer(registry=registry)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1, (2,)), KeyError("k"), FileNotFoundError(2, "No such file", "/x"), StopIteration(3),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ImportError("m", name="n", path="/p"), SystemExit(2),
        GraphRecursionError("deep"), TimeoutError(), OSError("only text"), ZeroDivisionError("division by zero"),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_built_in_exceptions_come_back_as_themselves(error: BaseException) -> None:
    back = JsonPlusSerializer().loads_typed(JsonPlusSerializer().dumps_typed([error]))[0]
    assert type(back) is type(error)
    assert (back.args, str(back), back.__dict__) == (error.args, str(error), error.__dict__)
    for name in ("filename", "errno", "name", "path", "code", "value"):
        assert getattr(back, name, None) == getattr(error, name, None)


def test_groups_and_notes_are_kept() -> None:
    error = ExceptionGroup("several", [ValueError("a"), TypeError("b")])
    error.add_note("a note")
    back = JsonPlusSerializer().loads_typed(JsonPlusSerializer().dumps_typed(error))
    assert [type(e) for e in back.exceptions] == [ValueError, TypeError]
    assert back.__notes__ == ["a note"]


def test_a_class_of_the_program_comes_back_without_its_init() -> None:
    written = own().dumps_typed(Custom(7, detail=(1,)))
    calls = Custom.calls
    back = own().loads_typed(written)
    assert (type(back), back.code, back.detail, back.args) == (Custom, 7, (1,), ("code 7",))
    assert Custom.calls == calls


def test_an_attribute_that_is_none_is_kept_too() -> None:
    back = own().loads_typed(own().dumps_typed(Custom(7)))
    assert vars(back) == {"code": 7, "detail": None}


def test_a_way_of_its_own_to_be_pickled_does_not_count() -> None:
    error = Refused(7)
    back = own().loads_typed(own().dumps_typed(error))
    assert (type(back), back.code, back.args, str(back)) == (Refused, 7, error.args, str(error))


def test_where_the_class_is_not_known_a_stand_in_says_so() -> None:
    back = JsonPlusSerializer(registry=TypeRegistry()).loads_typed(own().dumps_typed(Custom(7)))
    assert type(back) is RemoteError
    assert back.type_name == f"{__name__}:Custom"
    assert "code 7" in str(back)
    assert repr(back) == repr(Custom(7))


class Foreign(Exception): ...


class Bracketed(Exception):
    def __repr__(self) -> str:
        return f"<Bracketed {self}>"


def test_a_stand_in_has_the_repr_that_the_class_makes_itself() -> None:
    kept = storable_error(Bracketed("no city"), TypeRegistry())
    assert type(kept) is RemoteError
    back = own().loads_typed(own().dumps_typed(kept))
    assert repr(back) == repr(kept) == "<Bracketed no city>"


def test_nothing_is_warned_of_an_exception_that_a_failure_was_raised_with() -> None:
    """As those of urllib3, with which requests raises its own."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        kept = storable_error(Foreign(Foreign("no route")))
    assert not warned
    assert repr(own().loads_typed(own().dumps_typed(kept))) == "Foreign(Foreign('no route'))"


def test_in_the_state_an_unknown_exception_class_is_refused() -> None:
    with pytest.raises(SerializationError, match="register_type"):
        JsonPlusSerializer(registry=TypeRegistry()).dumps_typed({"e": Custom(1)})


@pytest.mark.parametrize(
    "error",
    [
        Custom(1, detail=object()),
        ValueError(object(), 5),
        Unprintable(1),
        NodeError("n", Custom(2), sys),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_failure_is_recorded_whatever_it_holds(error: BaseException) -> None:
    serde = JsonPlusSerializer(registry=TypeRegistry())
    back = serde.loads_typed(serde.dumps_typed(storable_error(error, serde.registry)))
    assert type(back) is RemoteError
    assert back.type_name.endswith(type(error).__name__)
    again = serde.loads_typed(serde.dumps_typed(back))
    assert (again.type_name, again.message, again.arguments) == (
        back.type_name,
        back.message,
        back.arguments,
    )


def test_what_can_be_stored_is_not_replaced() -> None:
    error = ValueError("x")
    assert storable_error(error) is error
    stand_in = storable_error(ValueError("x", object(), 5))
    assert isinstance(stand_in, RemoteError)
    assert stand_in.arguments[0] == "x"
    assert stand_in.arguments[2] == 5


def test_a_registered_exception_that_its_class_cannot_make_again_is_stored_as_a_stand_in() -> None:
    """pydantic's ValidationError holds its errors outside of its arguments."""
    pydantic = pytest.importorskip("pydantic")
    registry = TypeRegistry()
    registry.register(pydantic.ValidationError)
    serde = JsonPlusSerializer(registry=registry)
    with pytest.raises(pydantic.ValidationError) as raised:
        pydantic.TypeAdapter(int).validate_python("no number")
    back = serde.loads_typed(serde.dumps_typed(storable_error(raised.value, registry)))
    assert isinstance(back, RemoteError)
    assert "valid integer" in back.message
