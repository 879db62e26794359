"""Secrets and sizes of pydantic: exactly what they were, hidden when shown."""

import subprocess
import sys
from typing import Any

import ormsgpack
import pytest
from pydantic import BaseModel, ByteSize, Secret, SecretBytes, SecretStr

from graphs import single
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError, SerializationError, UnregisteredTypeError

VALUES = (
    SecretStr("a key"),
    SecretStr(""),
    SecretBytes(b"\x00\xff"),
    Secret[int](5),
    Secret(["a", ("b", SecretStr("c"))]),
    ByteSize(0),
    ByteSize(2**70),
)


def fresh() -> JsonPlusSerializer:
    return JsonPlusSerializer(registry=TypeRegistry())


def held(value: Any) -> Any:
    return value.get_secret_value() if hasattr(value, "get_secret_value") else int(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_of_pydantic_come_back_as_themselves_in_another_program(value: Any) -> None:
    again = fresh().loads_typed(fresh().dumps_typed(value))
    assert type(again) is type(value)
    assert type(held(again)) is type(held(value))
    assert again == value
    inside = {"list": [value], "keys": {(1, 2): value}}
    assert fresh().loads_typed(fresh().dumps_typed(inside)) == inside


def test_a_size_is_told_from_a_number_as_a_key_too() -> None:
    [key] = fresh().loads_typed(fresh().dumps_typed({ByteSize(7): "x"}))
    assert type(key) is ByteSize


class Settings(BaseModel):
    key: SecretStr
    token: SecretBytes
    size: ByteSize
    log: str = ""


def test_values_of_pydantic_may_be_in_a_state(run, saver, config):
    graph = single(lambda state: {"log": state.key.get_secret_value()}, Settings).compile(
        checkpointer=saver
    )
    given = {"key": SecretStr("k"), "token": SecretBytes(b"t"), "size": ByteSize(1024)}
    assert run.invoke(graph, given, config)["log"] == "k"
    values = run.get_state(graph, config).values
    assert values == {**given, "log": "k"}
    assert [type(values[name]) for name in given] == [SecretStr, SecretBytes, ByteSize]


def test_a_model_that_holds_them_comes_back() -> None:
    settings = Settings.model_validate({"key": "k", "token": b"t", "size": "1KiB"})
    registry = TypeRegistry()
    registry.register(Settings)
    serde = JsonPlusSerializer(registry=registry)
    again = serde.loads_typed(serde.dumps_typed(settings))
    assert again == settings
    assert type(again.size) is ByteSize


class Mine(SecretStr):
    pass


def test_a_class_of_the_programs_own_is_refused_without_what_it_hides() -> None:
    with pytest.raises(SerializationError, match="Mine") as told:
        fresh().dumps_typed({"key": Mine("hidden")})
    assert "hidden" not in str(told.value)


def stored(name: str, payload: Any) -> tuple[str, bytes]:
    """Bytes that nobody but an attacker would have written."""
    body = ormsgpack.packb([name, payload])
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(ext.RECORD, body))


@pytest.mark.parametrize(
    "name", ["pydantic:BaseModel", "pydantic:FilePath", "pydantic:SecretStr.__init__", "pydantic:"]
)
def test_a_stored_name_chooses_among_them_and_nothing_else(name: str) -> None:
    with pytest.raises(UnregisteredTypeError):
        fresh().loads_typed(stored(name, "k"))


@pytest.mark.parametrize(
    ("name", "payload"),
    [("SecretStr", 5), ("SecretBytes", "k"), ("ByteSize", "5"), ("ByteSize", True)],
)
def test_what_values_of_pydantic_are_made_of_is_checked(name: str, payload: Any) -> None:
    with pytest.raises(DeserializationError, match=f"{name} is made of"):
        fresh().loads_typed(stored(f"pydantic:{name}", payload))


def test_values_of_pydantic_are_read_where_it_was_not_imported_yet() -> None:
    written = fresh().dumps_typed(SecretStr("k"))
    program = (
        "import sys\n"
        "from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        "assert 'pydantic' not in sys.modules\n"
        f"print(JsonPlusSerializer().loads_typed({written!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "**********\n"
