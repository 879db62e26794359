"""Filters: what they mean, once for all stores.

    {"kind": "note"}                   equal
    {"kind": {"$ne": "note"}}          an operator; several must all hold
    {"place": {"city": "Ulm"}}         a field of a field
    {"place.city": "Ulm"}              the same, unless the value has a field of just that name

A filter looks at the JSON of a value. 1 equals 1.0, and neither equals true or "1". A field that
is not there is equal to None and to nothing else. Numbers are ordered among numbers and texts
among texts; anything else has no order, and such a comparison does not hold.

`parse` turns a filter into conditions, and refuses what it does not understand. A database carries
them out by itself where it can do it exactly; `holds` is what they mean.
"""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from milepost.errors import FilterError, SerdeError
from milepost.store._core.json_view import OPAQUE, Viewer, has_word, largest_with_word
from milepost.store._core.namespaces import is_plain

OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists")
ABSENT: Final = object()


class Condition(NamedTuple):
    """Something that must hold for the field at a path."""

    path: tuple[str, ...]
    operator: str
    """One of OPERATORS, or "$object": there are fields below this one."""
    operand: Any
    """As JSON has it; for `$in` a list of such."""


def parse(filter: Mapping[str, Any] | None, viewer: Viewer) -> tuple[Condition, ...]:
    """The conditions that a filter consists of."""
    if not filter:
        return ()
    if not isinstance(filter, Mapping):
        raise FilterError(f"A filter is a dict, not {type(filter).__name__}.")
    conditions: list[Condition] = []
    _collect(filter, (), conditions, viewer)
    return tuple(conditions)


def _collect(
    filter: Mapping[str, Any], above: tuple[str, ...], into: list[Condition], viewer: Viewer
) -> None:
    for key, wanted in filter.items():
        if not isinstance(key, str):
            raise FilterError(f"The names in a filter are strings, not {key!r}.")
        path = (*above, _name(key, viewer))
        if viewer.clear is not None:
            _check_clear((*above, key), wanted, viewer.clear)
        if not isinstance(wanted, Mapping):
            into.append(Condition(path, "$eq", viewer.comparable(wanted)))
            continue
        operators = [name for name in wanted if isinstance(name, str) and name.startswith("$")]
        if not operators:
            into.append(Condition(path, "$object", None))
            _collect(wanted, path, into, viewer)
            continue
        if len(operators) != len(wanted):
            raise FilterError(
                f"The filter for {key!r} mixes operators and field names: {list(wanted)}. Use "
                "either, or compare with the whole object: {'$eq': {...}}."
            )
        for operator in operators:
            into.append(_condition(path, operator, wanted[operator], viewer))


def _name(key: str, viewer: Viewer) -> str:
    """The name that a field has in a view."""
    if is_plain(key):
        return key
    if "." in key:
        raise FilterError(
            f"The name {key!r} in a filter has a period, and NUL or half of a surrogate pair, "
            "which is more than can be looked up. Write fields of fields as a dict: "
            "{'field': {'below': ...}}."
        )
    try:
        return viewer.name(key)
    except SerdeError as error:
        raise FilterError(f"No field can be called {key!r}: {error}") from error


def _condition(path: tuple[str, ...], operator: str, operand: Any, viewer: Viewer) -> Condition:
    name = ".".join(path)
    if operator not in OPERATORS:
        raise FilterError(
            f"Unsupported operator: {operator!r} for {name!r}. There are {', '.join(OPERATORS)}."
        )
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise FilterError(f"$exists for {name!r} takes True or False, not {operand!r}.")
        return Condition(path, operator, operand)
    if operator == "$in":
        if isinstance(operand, (str, bytes, Mapping)) or not hasattr(operand, "__iter__"):
            raise FilterError(f"$in for {name!r} takes a list of values, not {operand!r}.")
        return Condition(path, operator, viewer.comparable(list(operand)))
    if operator in _COMPARE and _is_number(operand) and not has_word(operand):
        # All that can be found is smaller than a large one, larger than a small one, and is not
        # comparable with NaN.
        if _COMPARE[operator](0.0, operand):
            return Condition(path, "$lte", largest_with_word())
        return Condition(path, "$in", [])
    plain = viewer.comparable(operand)
    if operator in _COMPARE and not isinstance(plain, str) and not _is_number(plain):
        raise FilterError(
            f"{operator} for {name!r} takes a number or a text, not {operand!r}: only these have "
            "an order here. Store a time as its timestamp or as isoformat() to compare it."
        )
    return Condition(path, operator, plain)


def _check_clear(path: tuple[str, ...], wanted: Any, fields: Sequence[Sequence[str]]) -> None:
    dotted = ".".join(path)
    for field in fields:
        clear = ".".join(field)
        if dotted == clear or dotted.startswith(clear + "."):
            return
        if clear.startswith(dotted + ".") and isinstance(wanted, Mapping):
            return  # only fields below it are clear; they are looked at in turn
    raise FilterError(
        f"The field {dotted!r} is encrypted, so a filter cannot see it. Declare it clear with "
        f"clear_fields=[{dotted!r}] and put the items again, or filter the results yourself."
    )


def holds(condition: Condition, view: Any) -> bool:
    """Whether the condition holds for a value, given as JSON has it."""
    found = look_up(view, condition.path)
    operator, operand = condition.operator, condition.operand
    present = None if found is ABSENT else found
    if operator == "$eq":
        return same(present, operand)
    if operator == "$ne":
        return not same(present, operand)
    if operator == "$exists":
        return (found is not ABSENT) is operand
    if operator == "$object":
        return isinstance(found, dict) and OPAQUE not in found
    if operator == "$in":
        return any(same(present, one) for one in operand)
    if isinstance(operand, str) is not isinstance(found, str):
        return False
    if not isinstance(found, str) and not _is_number(found):
        return False
    return _COMPARE[operator](found, operand)


def predicate(conditions: Sequence[Condition]) -> Callable[[Any], bool]:
    """Whether all conditions hold, as one function: for looking through many values."""
    tests = [_quick(condition) or partial(holds, condition) for condition in conditions]
    return tests[0] if len(tests) == 1 else lambda view: all(test(view) for test in tests)


def _quick(condition: Condition) -> Callable[[Any], bool] | None:
    """The test for a plain field and a plain operand, without the steps that these do not need."""
    path, operator, operand = condition
    if len(path) != 1 or "." in path[0]:
        return None
    name = path[0]
    if operator == "$eq" and isinstance(operand, str):
        return lambda view: view.get(name) == operand
    if operator in _COMPARE and _is_number(operand):
        compare = _COMPARE[operator]
        return lambda view: type(found := view.get(name)) in _NUMBERS and compare(found, operand)
    return None


def look_up(view: Any, path: Sequence[str]) -> Any:
    """What is at a path, or ABSENT."""
    for step in path:
        if not isinstance(view, dict):
            return ABSENT
        if step in view:
            view = view[step]
        elif "." in step:
            view = look_up(view, step.split("."))
        else:
            return ABSENT
    return view


def same(one: Any, other: Any) -> bool:
    """Equality as JSON knows it: Python would take 1 and True for the same."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(member, other[name]) for name, member in one.items())
        )
    return bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_NUMBERS: Final = (int, float)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": op.gt,
    "$gte": op.ge,
    "$lt": op.lt,
    "$lte": op.le,
}
