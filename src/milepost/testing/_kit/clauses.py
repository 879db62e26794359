"""Clauses of the contract: what a clause asks of the driver that runs it, and how it says what it
expects.

A clause is a generator, written once. It yields effects and is sent the results; an error is thrown
in. The drivers (`runner.py`) carry them out in sync code or on an event loop.

    yielded     sent back
    CallMethod  what `method` or `amethod` returned; a list if that was an iterator
    Together    the results of programs that ran at the same time
    Misplaced   what a method returned that was called where it might have to block a loop
    Reopen      the saver, after it was closed and made again
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.testing._kit.saver_fixture import SaverFixture


class ClauseFailed(MilepostError, AssertionError):
    """The saver does not keep a clause. The message says what was expected and what was found."""


@dataclass(slots=True)
class CallMethod:
    """Call a method of a saver or graph: `method` in sync code, `amethod` on a loop."""

    target: Any
    method: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(slots=True)
class Together:
    """Run programs at the same time."""

    programs: Sequence[KitEffects[Any]]


@dataclass(slots=True)
class Misplaced:
    """Call a method in an awkward place: a sync one on the loop, an async one on another loop."""

    call: CallMethod


class Reopen:
    """Close the saver and open it again, as a restarted program would."""

    __slots__ = ()


Effect: TypeAlias = CallMethod | Together | Misplaced | Reopen
R = TypeVar("R")
KitEffects: TypeAlias = Generator[Effect, Any, R]


def call(target: object, method: str, *arguments: Any, **keywords: Any) -> CallMethod:
    """A method of a saver or graph, in the form of the run."""
    return CallMethod(target, method, arguments, keywords)


def caught(effect: Effect) -> KitEffects[Exception | None]:
    """The error that carrying out an effect raises; None if it succeeds."""
    try:
        yield effect
    except Exception as error:
        return error
    return None


# -- the table of clauses


Body = Callable[["SaverFixture"], KitEffects[None]]


class Trait(StrEnum):
    """An ability that only some savers have. Clauses that need it are skipped for the others."""

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
    """The name in reports."""
    about: str
    """The sentence."""
    needs: frozenset[Trait]
    """The traits that a saver must have for the clause; the clause is skipped for others."""
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
