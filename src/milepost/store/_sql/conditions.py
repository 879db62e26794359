"""Filters in SQL. Names and values are always bound, never part of the statement.

PostgreSQL can do everything that `filters` means. SQLite does plain names and scalars by itself;
for the rest it calls `holds`, through the function `milepost_holds`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

from milepost.store._core.filters import Condition, holds
from milepost.store._core.json_view import OPAQUE, as_json

Clause: TypeAlias = tuple[str, list[Any]]
"""SQL with `?`, and its parameters."""

_SIGNS: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LARGEST: Final = 2**63
_EXACT: Final = 2**53
"""Up to here there is a float for every integer."""

_MOST_EQUAL: Final = 100
"""Values that a statement of SQLite compares with one by one: expressions have a largest depth."""

HOLDS: Final = "milepost_holds"


def sqlite_clause(condition: Condition) -> Clause:
    operator, operand = condition.operator, condition.operand
    if not all(map(_PLAIN_NAME.match, condition.path)):
        return _called(condition)
    path = "$." + ".".join(condition.path)
    if operator == "$exists":
        return f"json_type(i.view, ?) IS {'NOT ' if operand else ''}NULL", [path]
    if operator == "$object":
        opaque = f'{path}."{OPAQUE}"'
        return (
            "(json_type(i.view, ?) = 'object' AND json_type(i.view, ?) IS NULL)",
            [path, opaque],
        )
    if operator == "$in":
        clauses = [_sqlite_equal(path, one) for one in operand[: _MOST_EQUAL + 1]]
        equal = [clause for clause in clauses if clause is not None]
        if len(equal) < len(clauses) or len(equal) > _MOST_EQUAL:
            return _called(condition)
        any_of = " OR ".join(["1 = 0", *(sql for sql, _ in equal)])
        return f"({any_of})", [*chain.from_iterable(parameters for _, parameters in equal)]
    if operator in ("$eq", "$ne"):
        clause = _sqlite_equal(path, operand)
        if clause is None:
            return _called(condition)
        # A field that is not there makes it NULL, which is neither true nor false.
        return clause if operator == "$eq" else (f"NOT ifnull({clause[0]}, 0)", clause[1])
    return _sqlite_compared(path, operator, operand) or _called(condition)


# `json_extract` gives true as 1, and a list or an object as text. For equality, what it is is asked
# only where the operand could be taken for one of these.


def _sqlite_equal(path: str, operand: Any) -> Clause | None:
    if operand is None:
        return "ifnull(json_type(i.view, ?), 'null') = 'null'", [path]
    if isinstance(operand, bool):
        return "json_type(i.view, ?) = ?", [path, "true" if operand else "false"]
    clause: Clause = "json_extract(i.view, ?) = ?", [path, operand]
    if isinstance(operand, str):
        # A view that has it at this path has it somewhere; to look for that takes no parsing.
        member = f'"{path.rpartition(".")[2]}":{as_json(operand)}'
        clause = f"(instr(i.view, ?) AND {clause[0]})", [member, *clause[1]]
        return _also(clause, path, "text") if operand[:1] in ("[", "{") else clause
    if isinstance(operand, (int, float)) and abs(operand) < _LARGEST:
        return _also(clause, path, "number") if operand in (0, 1) else clause
    return None


def _sqlite_compared(path: str, operator: str, operand: Any) -> Clause | None:
    is_text = isinstance(operand, str)
    if not is_text and abs(operand) >= _EXACT:
        return None
    clause: Clause = f"json_extract(i.view, ?) {_SIGNS[operator]} ?", [path, operand]
    return _also(clause, path, "text" if is_text else "number")


def _also(clause: Clause, path: str, kind: str) -> Clause:
    types = "('text')" if kind == "text" else "('integer', 'real')"
    return f"({clause[0]} AND json_type(i.view, ?) IN {types})", [*clause[1], path]


def _called(condition: Condition) -> Clause:
    return f"{HOLDS}(?, i.view)", [json.dumps(condition)]


def sqlite_holds(condition: str, view: str) -> bool:
    """What SQLite calls for conditions that it cannot express."""
    return holds(_loaded(condition), json.loads(view))


@lru_cache(maxsize=64)
def _loaded(condition: str) -> Condition:
    path, operator, operand = json.loads(condition)
    return Condition(tuple(path), operator, operand)


def postgres_clause(condition: Condition) -> Clause:
    operator, operand = condition.operator, condition.operand
    field, path = _postgres_field("i.view", [], list(condition.path))
    if operator == "$exists":
        return f"{field} IS {'NOT ' if operand else ''}NULL", path
    if operator == "$object":
        return (
            f"(jsonb_typeof({field}) = 'object' AND NOT jsonb_exists({field}, ?))",
            [*path, *path, OPAQUE],
        )
    if operator in ("$eq", "$ne"):
        sign = "=" if operator == "$eq" else "<>"
        return (
            f"COALESCE({field}, 'null'::jsonb) {sign} ?::jsonb",
            [*path, json.dumps(operand)],
        )
    if operator == "$in":
        members = "(SELECT value FROM jsonb_array_elements(?::jsonb))"
        return f"COALESCE({field}, 'null'::jsonb) IN {members}", [*path, json.dumps(operand)]
    sign = _SIGNS[operator]
    if isinstance(operand, str):
        text = f'({field} #>> ?::text[]) COLLATE "C"'
        return (
            f"(jsonb_typeof({field}) = 'string' AND {text} {sign} ?)",
            [*path, *path, [], operand],
        )
    return (
        f"({field} {sign} ?::jsonb AND jsonb_typeof({field}) = 'number')",
        [*path, json.dumps(operand), *path],
    )


def _postgres_field(start: str, parameters: list[Any], steps: list[str]) -> tuple[str, list[Any]]:
    """What is at a path: `->` with a text takes it as a field's name, whatever it contains."""
    field = start
    for step in steps:
        below, below_parameters = f"({field} -> ?::text)", [*parameters, step]
        if "." in step:
            other, other_parameters = _postgres_field(field, parameters, step.split("."))
            field = f"COALESCE({below}, {other})"
            parameters = [*below_parameters, *other_parameters]
        else:
            field, parameters = below, below_parameters
    return field, parameters
