"""The docstrings of the public surface name the arguments, fields and errors, and show an example.

They are in the Google style, as the reference reads it. The rules:

- `Args:` names every parameter of a function, a method, or (in the docstring of the class) a
  constructor. A method that overrides another one may leave it to that one, and the async form of
  a method that names the sync form in backticks names only what it has besides.
- `Attributes:` or a text below the field explains every field of a record.
- `Raises:` names every error of `milepost.errors` that the function's own text raises.
- `Examples:` shows every class and function in use, the methods of `PRINCIPAL`, and the errors of
  `CAUGHT`. Other errors, and warnings, say in words when they are raised.

Every example runs and prints what it shows. The examples of methods continue the one of their
class, and those below a module whose docstring has one, such as `milepost.inspect`, continue that.
`DB_URI` and `REDIS_URL` in the environment are the addresses of servers.
"""

from __future__ import annotations

import doctest
import inspect
import sys
from functools import cache
from typing import Any

import pytest
from public_surface import (
    Member,
    Sections,
    described_fields,
    fields,
    is_ours,
    is_record,
    members,
    parameters,
    public_modules,
    raised,
)

from milepost.errors import InvalidUpdateError

PRINCIPAL = {
    "Pregel": "invoke stream batch get_state get_state_history update_state bulk_update_state"
    " stream_events delete_thread clear_cache get_graph get_subgraphs with_config",
    "StateGraph": "add_node set_node_defaults add_edge add_conditional_edges add_sequence"
    " set_entry_point set_conditional_entry_point set_finish_point compile",
    "BaseCheckpointSaver": "get get_tuple list put put_writes",
    "FacetedSaver": "list_threads get_thread create_thread set_thread_metadata copy_thread prune"
    " delete_thread delete_for_runs erase sweep start_sweeper reencrypt vacuum",
    "BaseStore": "get put delete search list_namespaces batch",
    "RunControl": "request_drain",
}
"""Methods that programs call by themselves, by the class that defines them."""
CAUGHT = frozenset(
    [
        "CheckpointNotFoundError",
        "GraphBuildError",
        "GraphDrained",
        "GraphRecursionError",
        "InvalidUpdateError",
        "MissingThreadError",
        "SerializationError",
        "ThreadConflict",
        "UnknownInterruptError",
        "VersionConflict",
    ]
)
"""Errors that programs catch, or meet on their first day."""


def test_every_argument_is_named():
    assert [
        f"{one.name}: {', '.join(sorted(missing))}"
        for one in members()
        if (missing := arguments_of(one) - explained(one, "Args"))
    ] == []


def test_every_field_of_a_record_is_explained():
    assert [
        f"{one.name}: {', '.join(sorted(missing))}"
        for one in members()
        if is_record(one.object)
        and (
            missing := fields(one.object)
            - described_fields(one.object)
            - one.doc.names("Attributes")
            - one.doc.names("Args")
        )
    ] == []


def test_every_error_of_ours_that_a_function_raises_is_named():
    functions = [one for one in members() if not one.is_class]
    assert [
        f"{one.name}: {', '.join(sorted(missing))}"
        for one in functions
        if (missing := raised(one.object) - explained(one, "Raises"))
    ] == []


def test_every_class_and_function_and_principal_method_has_an_example():
    assert [
        one.name for one in members() if needs_example(one) and "Examples" not in one.doc.sections
    ] == []


def test_the_principal_methods_exist():
    found = {(one.owner.__name__, one.last_name) for one in members() if one.owner}
    named = {(cls, name) for cls, names in PRINCIPAL.items() for name in names.split()}
    assert named - found == set()


def arguments_of(member: Member) -> set[str]:
    """What has to be named; a record's constructor takes its fields."""
    if not member.is_class:
        return parameters(member.object)
    if is_record(member.object) or issubclass(member.object, (Exception, Warning)):
        return set()
    init = vars(member.object).get("__init__")
    return parameters(init) if is_ours(init) else set()


def explained(member: Member, section: str) -> set[str]:
    """What the docstring explains, and those to which it leaves the rest."""
    others = [Member(one.__name__, one) for one in forms(member)] if member.owner else []
    if not member.object.__doc__ and any(other.object.__doc__ for other in others):
        return arguments_of(member) | raised_by(others)
    return set().union(*(one.doc.names(section) for one in [member, *others]))


def raised_by(members: list[Member]) -> set[str]:
    return set().union(*(one.doc.names("Raises") for one in members))


def forms(member: Member) -> list[Any]:
    """The functions that a method overrides, and the sync form that its docstring names."""
    name = member.last_name
    assert member.owner is not None
    names = [name]
    if name[0] == "a" and f"`{name[1:]}`" in (member.object.__doc__ or f"`{name[1:]}`"):
        names.append(name[1:])
    above = [vars(cls).get(one) for cls in heirs(member.owner) for one in names]
    bare = [inspect.unwrap(getattr(one, "__func__", one)) for one in above if one is not None]
    return [one for one in bare if inspect.isfunction(one)]


def heirs(owner: type) -> list[type]:
    """The class, its bases, and the bases of the public classes that it is a part of."""
    lines = [
        one.object.__mro__ for one in members() if one.is_class and owner in one.object.__mro__
    ]
    return list(dict.fromkeys(cls for line in [owner.__mro__, *lines] for cls in line))


def needs_example(member: Member) -> bool:
    if member.owner is not None:
        return member.last_name in PRINCIPAL.get(member.owner.__name__, "").split()
    if member.last_name.startswith("pytest_"):
        return False  # a hook, which pytest calls
    if member.is_class and issubclass(member.object, (Exception, Warning)):
        return member.last_name in CAUGHT
    return True


SERVERS = {"DB_URI": "uri", "REDIS_URL": "redis_server"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@cache
def with_examples() -> tuple[Member, ...]:
    return tuple(one for one in members() if "Examples" in one.doc.sections)


def example(member: Member) -> str:
    """The example, after those that it continues: of its module, and of the class of a method."""
    rooms = [one for one in public_modules() if member.name.startswith(f"{one}.")]
    begun = [Sections.of(sys.modules[one].__doc__).sections.get("Examples", "") for one in rooms]
    owner = member.owner
    classes = [one for one in with_examples() if owner and one.is_class]
    classes = [one for one in classes if owner in one.object.__mro__]
    classes.sort(key=lambda one: one.object is not owner)
    texts = [one.doc.sections["Examples"] for one in [*classes[:1], member]]
    return "\n\n".join([*begun, *texts])


@pytest.mark.parametrize("module", public_modules())
def test_the_examples_print_what_they_show(module, request, monkeypatch, tmp_path):
    told: list[str] = []
    for number, member in enumerate(one for one in with_examples() if one.module == module):
        text = example(member)
        for variable, fixture in SERVERS.items():
            if variable in text:
                found = request.getfixturevalue(fixture)
                monkeypatch.setenv(variable, getattr(found, "url", found))
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        names = {"__name__": "__main__"}
        test = doctest.DocTestParser().get_doctest(text, names, member.name, None, None)
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=told.append)
    assert not told, "".join(told)


def test_the_rules_find_what_is_missing():
    class Half:
        """A class with one argument that is not named.

        Args:
            named: This one.
        """

        def __init__(self, named: int, left_out: int) -> None: ...

        def work(self, hours: int) -> None:
            """Do something."""
            raise InvalidUpdateError(str(hours))

    whole, work = Member("half", Half), Member("half.work", Half.work, Half)
    Half.__init__.__module__ = "milepost.half"
    assert arguments_of(whole) - explained(whole, "Args") == {"left_out"}
    assert arguments_of(work) - explained(work, "Args") == {"hours"}
    assert raised(work.object) - explained(work, "Raises") == {"InvalidUpdateError"}
    assert needs_example(whole)
    assert "Examples" not in whole.doc.sections
