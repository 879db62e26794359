"""Clauses of the contract, and how a clause says what it expects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

from milepost.testing._kit.errors import ClauseFailed

if TYPE_CHECKING:
    from milepost.testing._kit.effects import KitEffects
    from milepost.testing._kit.saver_fixture import SaverFixture

Body = Callable[["SaverFixture"], "KitEffects[None]"]


class Trait(StrEnum):
    """What only some savers have. A clause that needs it is skipped for the others."""

    METHODS = "methods of this API"
    NO_METHODS = "no methods of this API"
    HISTORY = "history: checkpoints before the latest"
    PERSISTENCE = "a place that outlives the saver"
    COPIES = "copy_thread"
    PRUNING = "prune"
    RUNS = "delete_for_runs"
    REGISTRY = "list_threads, get_thread and set_thread_metadata"
    CREATION = "create_thread"
    STEPS = "StepSaver"


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence of the contract, with the program that checks it.

    Examples:
        >>> from milepost.testing import all_clauses
        >>> clause = all_clauses()[0]
        >>> bool(clause.group and clause.name and clause.about)
        True
    """

    group: str
    """The part of the contract that it belongs to."""
    name: str
    """What it is called in reports."""
    about: str
    """The sentence."""
    needs: frozenset[Trait]
    """What a saver must have for it; others skip it."""
    body: Body
    """The program."""


_CLAUSES: dict[str, Clause] = {}


def clause(group: str, *needs: Trait) -> Callable[[Body], Body]:
    """Add a generator function to the suite; its name and docstring are the clause's."""

    def add(body: Body) -> Body:
        name = body.__name__
        if name in _CLAUSES:
            raise ValueError(f"There are two clauses named {name}.")
        about = " ".join((body.__doc__ or "").split())
        wanted = frozenset(needs)
        if Trait.NO_METHODS not in wanted:
            wanted |= {Trait.METHODS}
        _CLAUSES[name] = Clause(group, name, about, wanted, body)
        return body

    return add


def all_clauses(groups: Collection[str] | None = None) -> tuple[Clause, ...]:
    """The suite, or some groups of it, in the order in which it is run.

    Args:
        groups: Their names; all by default.

    Examples:
        >>> from milepost.testing import all_clauses
        >>> len(all_clauses()) > 20
        True
    """
    import milepost.testing._suite  # noqa: F401 - importing it fills the table

    known = dict.fromkeys(one.group for one in _CLAUSES.values())
    if groups is not None and (unknown := set(groups) - set(known)):
        raise ValueError(f"Unknown groups {sorted(unknown)}: there are {', '.join(known)}.")
    return tuple(one for one in _CLAUSES.values() if groups is None or one.group in groups)


# -- expectations: not `assert`, which `python -O` leaves out


def same(found: object, wanted: object, what: str) -> None:
    """Fail unless the two are equal."""
    if found != wanted:
        raise ClauseFailed(f"{what}: expected {wanted!r}, found {found!r}.")


def holds(condition: object, what: str) -> None:
    """Fail unless the condition is true; `what` says what is wrong otherwise."""
    if not condition:
        fail(what)


def fail(what: str) -> NoReturn:
    """Fail; `what` says what is wrong."""
    raise ClauseFailed(f"{what}.")


def exactly(found: Any, wanted: Any, what: str) -> None:
    """Fail unless the two are equal and of the same types, all the way down."""
    same(_typed(found), _typed(wanted), what)


def _typed(value: Any) -> Any:
    if isinstance(value, dict):
        return (dict, [(_typed(key), _typed(inner)) for key, inner in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [_typed(inner) for inner in value])
    return (type(value), value)
