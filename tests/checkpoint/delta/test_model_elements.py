"""Lists of pydantic models that the accelerator packs: the same bytes as without it."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr

from milepost._internal import native
from milepost.checkpoint._delta.encode import Codec, Encoded
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)


class Note(BaseModel):
    text: str = ""
    more: Any = None


class Open(Note):
    model_config = ConfigDict(extra="allow")


class Private(Note):
    _seen: int = PrivateAttr(default=0)


class Odd(Note):
    """One that does something, once, when it is looked at."""

    def __getattribute__(self, name: str) -> Any:
        fields = super().__getattribute__("__dict__")
        if name == "__pydantic_extra__" and callable(does := fields.get("more")):
            fields["more"] = None
            return does()
        return super().__getattribute__(name)


REGISTRY = TypeRegistry()
for cls in (Note, Open, Private, Odd):
    REGISTRY.register(cls)
CODEC = Codec(JsonPlusSerializer(registry=REGISTRY))


def in_c(value: list[Any], base: object = None) -> tuple[bytes, list[bytes]] | None:
    assert native.elements is not None
    found = native.elements(value, CODEC.serde.level.tuples, base, REGISTRY.models, None)
    return None if found is None else found[:2]


def in_python(value: list[Any]) -> Encoded:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "elements", None)
        return CODEC.encode(value)


USUAL = [Note(text="a"), Note(more=1), Note(), Open(text="b"), Note(more=["é" * 300, (1, (2,))])]
UNUSUAL = [Open(text="c", other=1), Private(), Note(more={1, 2}), Note(more=Note())]


def test_models_have_the_same_bytes_with_the_accelerator() -> None:
    expected = in_python(USUAL)
    assert in_c(USUAL) == expected.parts
    assert CODEC.decode("msgpack", expected.parts.pieces()) == USUAL


@pytest.mark.parametrize("unusual", UNUSUAL, ids=repr)
def test_a_model_that_is_not_usual_is_left_to_python(unusual: Note) -> None:
    expected = in_python([*USUAL, unusual])
    assert in_c([*USUAL, unusual]) is None
    assert CODEC.encode([*USUAL, unusual]) == expected


def test_a_model_that_was_changed_in_place_has_other_bytes_and_the_others_are_shared() -> None:
    value = [Note(text=text, more={"a": [1]}) for text in "abc"]
    first = CODEC.encode(value)
    value[1].more["a"].append(2)
    later = CODEC.encode(value, after=first)
    same = [a is b for a, b in zip(first.parts.elements, later.parts.elements, strict=True)]
    assert same == [True, False, True]
    assert later.parts == in_python(value).parts


def test_a_class_that_is_registered_again_is_written_as_it_is_registered_now() -> None:
    registry = TypeRegistry()
    registry.register(Note)
    codec = Codec(JsonPlusSerializer(registry=registry))
    before = codec.encode([Note()])
    registry.register(Note, version=2)
    assert codec.encode([Note()]) != before
    registry.register(Note, encode=lambda note: note.text, decode=lambda text: Note(text=text))
    assert Note not in registry.models


def refuse() -> None:
    raise ValueError("not now")


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_model_may_fail_be_interrupted_or_empty_its_list_when_it_is_looked_at() -> None:
    in_python([Odd(), Odd(more=1)])
    value: list[Any] = []

    def odd(does: Callable[[], Any]) -> list[Any]:
        value[:] = [Odd(more=1), Odd(more=does), Odd()]
        return value

    assert in_c(odd(refuse)) is None
    assert in_c(odd(value.clear)) is None
    with pytest.raises(KeyboardInterrupt):
        in_c(odd(interrupt))
