"""Plants do not rot: what they change is there to be changed, and is called as before."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import multiprocessing
import os
import pkgutil
import sys
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import milepost
from attack.plants import PLANTS

ABSENT = object()


def owners() -> dict[str, Any]:
    """All that names belong to: modules, their classes, and settings that they have."""
    found: dict[str, Any] = {}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] != "milepost" or module is None:
            continue
        found[name] = module
        for value in list(vars(module).values()):
            kind = value if isinstance(value, type) else type(value)
            is_ours = kind.__module__.partition(".")[0] == "milepost"
            if is_ours and (kind is value or dataclasses.is_dataclass(value)):
                found[f"{kind.__module__}.{kind.__qualname__} {id(value)}"] = value
    return found


def names_of(owner: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(owner) and not isinstance(owner, type):
        fields = {field.name for field in dataclasses.fields(owner)}
        return {name: getattr(owner, name) for name in fields | set(getattr(owner, "__dict__", ()))}
    return dict(vars(owner))


def inherited(owner: Any, name: str) -> Any:
    """What a class had under a name that it has now got itself."""
    above = owner.__mro__[1:] if isinstance(owner, type) else ()
    return next((vars(one)[name] for one in above if name in vars(one)), ABSENT)


def takes(new: Any, old: Any) -> bool:
    """Whether a function can be called with all that the other one is called with."""
    if not (isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType)):
        return True
    kinds = inspect.Parameter
    given = inspect.signature(old).parameters.values()
    positional = [
        one for one in given if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    named = {one.name: None for one in given if one.kind is kinds.KEYWORD_ONLY}
    try:
        inspect.signature(new).bind(*positional, **named)
    except TypeError:
        return False
    return True


def problems_of(put_back: Callable[[], None]) -> list[str]:
    """What is wrong with a plant, which is put back here."""
    everything = owners()
    before = {key: names_of(owner) for key, owner in everything.items()}
    put_back()
    changed, problems = 0, []
    for key, owner in everything.items():
        for attribute, new in names_of(owner).items():
            old = before[key].get(attribute, ABSENT)
            is_hidden = attribute.startswith("__") and not isinstance(new, types.FunctionType)
            if old is new or is_hidden:
                continue
            old = inherited(owner, attribute) if old is ABSENT else old
            if old is ABSENT:
                if not isinstance(new, types.ModuleType):  # one that was loaded meanwhile
                    problems.append(f"{key} has no {attribute}")
                continue
            changed += 1
            if not takes(new, old):
                problems.append(f"{attribute} of {key} is called with {inspect.signature(old)}")
    return problems if changed else [*problems, "it changes nothing"]


# -- plants that have rotted


def of_nothing() -> None:
    pass


def of_a_name_that_is_gone() -> None:
    from milepost._db.sweeper import Sweeper

    Sweeper.begin = Sweeper.start  # type: ignore[attr-defined]


def of_another_signature() -> None:
    from milepost._db.sweeper import Sweeper

    Sweeper.start = lambda self: None  # type: ignore[assignment,method-assign,misc]


ROTTEN = {one.__name__: one for one in (of_nothing, of_a_name_that_is_gone, of_another_signature)}


# -- in processes of their own


def look_at_all() -> dict[str, list[str]]:
    """Everything is loaded once, and each plant is put back in a child that has it."""
    for module in pkgutil.walk_packages(milepost.__path__, "milepost."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of what is not installed
                importlib.import_module(module.name)
    plants = {**{name: one.put_back for name, one in PLANTS.items()}, **ROTTEN}
    return {name: in_child(put_back) for name, put_back in plants.items()}


def in_child(put_back: Callable[[], None]) -> list[str]:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            problems = problems_of(put_back)
        except BaseException as error:
            problems = [repr(error)]
        os.write(writing, json.dumps(problems).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    found: list[str] = json.loads(text or '["it ended its process"]')
    return found


@pytest.fixture(scope="module")
def problems() -> dict[str, list[str]]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(look_at_all).result()


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.mark.parametrize("name", [*PLANTS])
def test_what_a_plant_changes_is_there(name, problems):
    if any(place.startswith("postgres") for place in PLANTS[name].places):
        pytest.importorskip("psycopg")
    assert problems[name] == []


@pytest.mark.parametrize("name", [*ROTTEN])
def test_a_plant_that_has_rotted_is_found(name, problems):
    assert problems[name]
