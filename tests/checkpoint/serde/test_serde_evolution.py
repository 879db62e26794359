"""Code changes; what was stored before is still read, or says what it needs."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from milepost.checkpoint.serde.evolution import dry_run
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry, register_migration, register_type
from milepost.errors import DeserializationError, UnregisteredTypeError


def serde_with(cls: type, **options: Any) -> JsonPlusSerializer:
    registry = TypeRegistry()
    register_type(cls, registry=registry, **options)
    return JsonPlusSerializer(registry=registry)


def classes_v1() -> list[Any]:
    @dataclass
    class Data:
        a: int

    class Model(BaseModel):
        a: int

    class Row(NamedTuple):
        a: int

    return [Data(1), Model(a=1), Row(1)]


def classes_v2() -> list[type]:
    @dataclass
    class Data:
        a: int
        b: list[int] = field(default_factory=lambda: [7])

    class Model(BaseModel):
        a: int
        b: list[int] = [7]

    class Row(NamedTuple):
        a: int
        b: Any = [7]

    return [Data, Model, Row]


@pytest.mark.parametrize("i", range(3), ids=["dataclass", "model", "named tuple"])
def test_a_field_added_with_a_default_needs_no_migration(i: int) -> None:
    written = serde_with(type(classes_v1()[i]), name="thing").dumps_typed(classes_v1()[i])
    written = serde_with(type(old := classes_v1()[i]), name="thing").dumps_typed(old)
    back = serde_with(classes_v2()[i], name="thing").loads_typed(written)
    assert (back.a, back.b) == (1, [7])


def test_its_default_may_be_made_of_the_other_fields() -> None:
    class Model(BaseModel):
        a: int

    written = serde_with(Model, name="thing").dumps_typed(Model(a=1))

    class Later(BaseModel):
        a: int
        b: int = Field(default_factory=lambda others: others["a"] + 1)

    assert serde_with(Later, name="thing").loads_typed(written) == Later(a=1, b=2)


@pytest.mark.parametrize("i", range(3), ids=["dataclass", "model", "named tuple"])
def test_a_field_that_is_gone_needs_one(i: int) -> None:
    new = classes_v2()[i]
    written = serde_with(new, name="thing").dumps_typed(new(a=1, b=[2]))
    old = type(classes_v1()[i])
    with pytest.raises(DeserializationError, match="migration"):
        serde_with(old, name="thing").loads_typed(written)
    reader = serde_with(old, name="thing", version=2)
    register_migration(
        old, 1, lambda fields: {"a": fields["a"] + fields["b"][0]}, registry=reader.registry
    )
    assert reader.loads_typed(written).a == 3


def test_a_class_that_moved_or_was_renamed_is_found_by_its_old_names() -> None:
    @dataclass
    class Before:
        a: int

    @dataclass
    class After:
        a: int

    written = serde_with(Before).dumps_typed(Before(1))
    name = f"{Before.__module__}:{Before.__qualname__}"
    with pytest.raises(UnregisteredTypeError, match="old_names"):
        serde_with(After).loads_typed(written)
    assert serde_with(After, old_names=[name]).loads_typed(written) == After(1)
    written = serde_with(Before, name="shop.models:Before").dumps_typed(Before(1))
    assert serde_with(After, name="after", old_names=["shop.models.Before"]).loads_typed(
        written
    ) == After(1)


def test_giving_a_class_a_stable_name_keeps_what_was_stored_before() -> None:
    @dataclass
    class Thing:
        a: int

    written = serde_with(Thing).dumps_typed(Thing(1))
    assert serde_with(Thing, name="stable").loads_typed(written) == Thing(1)


def test_migrations_run_in_order_and_a_missing_one_raises() -> None:
    @dataclass
    class Thing:
        total: int

    written = serde_with(Thing, name="t").dumps_typed(Thing(1))
    reader = serde_with(Thing, name="t", version=3)
    register_migration(Thing, 2, lambda f: {"total": f["total"] * 10}, registry=reader.registry)
    with pytest.raises(DeserializationError, match="no migration from 1 to 2") as caught:
        reader.loads_typed(("msgpack", b"\x91" + written[1]))
    assert caught.value.path == "[0]"
    register_migration(Thing, 1, lambda f: {"total": f["total"] + 1}, registry=reader.registry)
    assert reader.loads_typed(written) == Thing(20)
    assert reader.loads_typed(reader.dumps_typed(Thing(5))) == Thing(5)
    with pytest.raises(DeserializationError, match="newer program"):
        serde_with(Thing, name="t").loads_typed(reader.dumps_typed(Thing(5)))


def test_enum_members_and_custom_types_migrate_too() -> None:
    class Old(enum.Enum):
        GREY = 1

    class New(enum.Enum):
        GRAY = 1

    written = serde_with(Old, name="c").dumps_typed(Old.GREY)
    with pytest.raises(DeserializationError, match="GREY"):
        serde_with(New, name="c").loads_typed(written)
    reader = serde_with(New, name="c", version=2)
    register_migration(New, 1, {"GREY": "GRAY"}.__getitem__, registry=reader.registry)
    assert reader.loads_typed(written) is New.GRAY

    class Money:
        def __init__(self, cents: int) -> None:
            self.cents = cents

    decode = {"encode": lambda m: m.cents, "decode": Money}
    written = serde_with(Money, name="m", encode=lambda m: m.cents / 100, decode=Money).dumps_typed(
        Money(150)
    )
    reader = serde_with(Money, name="m", version=2, **decode)
    register_migration(Money, 1, lambda amount: round(amount * 100), registry=reader.registry)
    assert reader.loads_typed(written).cents == 150


def test_a_model_keeps_which_fields_were_given_through_a_migration() -> None:
    class Old(BaseModel):
        gone: int = 0
        kept: int = 0

    class New(BaseModel):
        kept: int = 0
        other: int = 0

    written = serde_with(Old, name="m").dumps_typed(Old(gone=1, kept=2))
    reader = serde_with(New, name="m", version=2)
    register_migration(New, 1, lambda f: {"kept": f["kept"]}, registry=reader.registry)
    assert reader.loads_typed(written).model_fields_set == {"kept"}


def test_a_decode_function_is_held_to_its_word() -> None:
    class Money:
        pass

    liar = serde_with(Money, encode=lambda _: 1, decode=lambda payload: payload)
    with pytest.raises(DeserializationError, match="returned a int"):
        liar.loads_typed(liar.dumps_typed(Money()))


class LeastSaver:
    """The least that a saver is: rows, and a public `list`."""

    def __init__(self, serde: Any) -> None:
        self.serde = serde
        self.rows: list[tuple[str, str, dict[str, Any]]] = []

    def put(self, thread: str, checkpoint: str, values: dict[str, Any]) -> None:
        self.rows.append(
            (thread, checkpoint, {k: self.serde.dumps_typed(v) for k, v in values.items()})
        )

    def list(self, config: Any) -> Iterator[Any]:
        for thread, checkpoint, values in self.rows:
            if config is None or config["configurable"]["thread_id"] == thread:
                yield SimpleNamespace(
                    config={
                        "configurable": {
                            "thread_id": thread,
                            "checkpoint_ns": "",
                            "checkpoint_id": checkpoint,
                        }
                    },
                    checkpoint={
                        "channel_values": {k: self.serde.loads_typed(v) for k, v in values.items()}
                    },
                    pending_writes=[],
                )


def test_a_dry_run_reports_which_threads_would_fail() -> None:
    @dataclass
    class Thing:
        a: int

    saver = LeastSaver(serde_with(Thing, name="thing"))
    saver.put("good", "1", {"n": 1})
    saver.put("bad", "2", {"n": 1, "things": [Thing(1)]})
    saver.put("fine", "3", {"n": 2})
    assert dry_run(saver)
    saver.serde = JsonPlusSerializer(registry=TypeRegistry())
    for report in (dry_run(saver), dry_run(saver, threads=["good", "bad", "fine"])):
        assert not report
        assert report.checked == 3
        assert report.threads == ["bad"]
        (failure,) = report.failures
        assert (failure.thread, failure.checkpoint, failure.channel) == ("bad", "2", "things")
        assert isinstance(failure.error, UnregisteredTypeError)
        assert failure.error.path == "[0]"
        assert "bad" in str(failure.error)
    assert type(saver.serde) is JsonPlusSerializer
