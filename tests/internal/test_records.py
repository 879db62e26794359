"""Records that programs see can do what frozen dataclasses with slots can do."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from milepost._internal.dataclass_tools import frozen
from milepost.types import CachePolicy, Command, Interrupt, Overwrite, TimeoutPolicy


@frozen()
class Place:
    """As this package makes it."""

    name: str
    inside: Any = None
    note: str = dataclasses.field(default="", repr=False)
    seen: int = dataclasses.field(default=0, compare=False)


Ours = Place


@dataclasses.dataclass(frozen=True, slots=True)
class Place:  # type: ignore[no-redef]
    """As the standard library makes it."""

    name: str
    inside: Any = None
    note: str = dataclasses.field(default="", repr=False)
    seen: int = dataclasses.field(default=0, compare=False)


Theirs = Place
BOTH = pytest.mark.parametrize("kind", [Ours, Theirs], ids=["ours", "theirs"])


@BOTH
def test_a_record_is_shown_with_its_fields(kind):
    assert repr(kind("a", [1], note="hidden")) == "Place(name='a', inside=[1], seen=0)"


@BOTH
def test_a_record_may_contain_itself(kind):
    inside: list[Any] = []
    inside.append(kind("a", inside))
    assert repr(inside[0]) == "Place(name='a', inside=[...], seen=0)"


@BOTH
def test_a_record_is_equal_to_one_of_its_class_with_the_same_fields(kind):
    assert kind("a", 1) == kind("a", 1, seen=3)
    assert hash(kind("a", 1)) == hash(kind("a", 1, seen=3))
    assert kind("a", 1) != kind("a", 2)
    assert kind("a", 1) != kind("a", 1, "noted")
    assert kind("a") != ("a", None, "", 0)
    assert Ours("a") != Theirs("a")


@BOTH
def test_a_record_cannot_be_hashed_if_a_field_cannot(kind):
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(kind("a", []))


@BOTH
def test_a_record_cannot_be_changed(kind):
    place = kind("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        place.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del place.name
    assert not hasattr(place, "__dict__")


@BOTH
def test_a_record_can_be_taken_apart(kind):
    match kind("a", 1):
        case kind(name, inside):
            assert (name, inside) == ("a", 1)
    assert dataclasses.asdict(kind("a")) == {"name": "a", "inside": None, "note": "", "seen": 0}
    assert dataclasses.replace(kind("a"), name="b") == kind("b")


@pytest.mark.parametrize(
    "given",
    [
        TimeoutPolicy(run_timeout=1),
        CachePolicy(ttl=3),
        Interrupt("why?", "an-id"),
        Command(update={"a": 1}, goto="there"),
        Overwrite([1]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_record_can_be_copied_and_pickled(given):
    assert copy.deepcopy(given) == given
    assert pickle.loads(pickle.dumps(given)) == given


def test_a_class_may_have_its_own_way_to_be_shown():
    assert repr(Command(goto="there")) == "Command(goto='there')"
