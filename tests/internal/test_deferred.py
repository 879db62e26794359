"""Named tuples whose fields are made when somebody looks: nobody sees a half-made one."""

from __future__ import annotations

import copy
import json
import operator
import pickle
import weakref
from typing import Any, NamedTuple

import pytest

from milepost._internal.lazy_tuple import LazyTuple


class Point(NamedTuple):
    x: Any
    y: Any = 0


class Later(LazyTuple, plain=Point):
    pass


@pytest.fixture
def made() -> list[str]:
    return []


@pytest.fixture
def point(made: list[str]) -> Any:
    def maker(name: str) -> Any:
        made.append(name)
        return [name]

    return Later({"x": 1}, maker)


LOOKS = {
    "by name": lambda p: (p.x, p.y),
    "by index": lambda p: (p[0], p[-1]),
    "by a slice": lambda p: p[0:2],
    "unpacked": lambda p: (lambda x, y: (x, y))(*p),
    "as a tuple": tuple,
    "as a list": lambda p: tuple(list(p)),  # noqa: C414
    "as a dict": lambda p: tuple(p._asdict().values()),
    "replaced": lambda p: tuple(p._replace(x=p.x)),
    "copied": lambda p: tuple(copy.copy(p)),
    "copied deeply": lambda p: tuple(copy.deepcopy(p)),
    "pickled": lambda p: tuple(pickle.loads(pickle.dumps(p))),
    "added to": lambda p: operator.add(p, ()),
    "added": lambda p: operator.add((), p),
    "repeated": lambda p: p * 1,
    "in a star target": lambda p: (lambda first, *rest: (first, *rest))(*p),
}


@pytest.mark.parametrize("look", LOOKS)
def test_however_one_looks_the_fields_are_whole(point, look):
    assert LOOKS[look](point) == (1, ["y"])


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda p: "%s" % p, "Point(x=1, y=['y'])"),  # noqa: UP031
        (lambda p: json.dumps(p, default=list), '[1, ["y"]]'),
        (lambda p: "{} {}".format(*p), "1 ['y']"),
    ],
    ids=["a format", "JSON of what is no list", "a format method"],
)
def test_code_in_c_that_takes_members_gets_them_made(point, look, expected):
    assert look(point) == expected


@pytest.mark.parametrize(
    "look",
    [lambda p: "%s %s" % p, json.dumps],  # noqa: UP031
    ids=["a format of two", "JSON"],
)
def test_code_in_c_that_takes_only_tuples_refuses_what_is_not_made(point, look):
    with pytest.raises(TypeError, match=r"not enough arguments|not JSON serializable"):
        look(point)


def test_a_match_statement_sees_them_too(point):
    match point:
        case Point(x=1, y=found):
            assert found == ["y"]
        case _:
            pytest.fail("no match")
    match point:
        case Point(1, found):
            assert found == ["y"]
        case _:
            pytest.fail("no match")
    match point:
        case (1, found):
            assert found == ["y"]
        case _:
            pytest.fail("no match")


def test_a_lazy_tuple_equals_prints_and_hashes_like_a_plain_one(point):
    plain = Point(1, ["y"])
    assert point == plain
    assert plain == point
    assert operator.ne(point, plain) is False
    assert point != Point(2, ["y"])
    assert repr(point) == "Point(x=1, y=['y'])"
    assert hash(Later({"x": 1, "y": 2}, str)) == hash((1, 2))
    assert ["y"] in point
    assert point.index(["y"]) == 1
    assert point.count(1) == 1
    assert len(point) == 2
    assert isinstance(point, Point)
    assert Later({"x": 1, "y": 2}, str) < (1, 3)


def test_a_field_is_made_once_and_only_if_it_is_looked_at(point, made):
    assert point.x == 1
    assert made == []
    assert point.y is point.y
    assert made == ["y"]


def test_what_it_was_made_from_is_let_go_when_all_is_made():
    class Source:
        def __call__(self, name: str) -> str:
            return name

    source = Source()
    watched = weakref.ref(source)
    point = Later({}, source)
    del source
    assert point.x == "x"
    assert watched() is not None
    assert point.y == "y"
    assert watched() is None


def test_what_cannot_be_made_raises_at_every_attempt():
    def maker(name: str) -> Any:
        raise ValueError(name)

    point = Later({"x": 1}, maker)
    for _ in range(2):
        with pytest.raises(ValueError, match="y"):
            _ = point.y
    with pytest.raises(ValueError, match="y"):
        tuple(point)
