"""Runs clauses on a saver: one of them for a test, or all of them for a report."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from milepost._internal.ids import random_token
from milepost.checkpoint._contract.step_saver import StepSaver
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.errors import ColourError, MissingDependencyError
from milepost.testing._kit.clauses import Clause, ClauseFailed, Trait, all_clauses, call, caught
from milepost.testing._kit.runner import Api, Factory, Runner, answer, in_own_thread
from milepost.testing._kit.saver_fixture import SaverFixture

APIS: tuple[Api, ...] = ("sync", "async")
Status = Literal["passed", "failed", "skipped"]
LIMIT = 120.0
"""Seconds that a clause may take before the saver is said to hang."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one clause went in one API.

    Examples:
        >>> from milepost.testing import Outcome
        >>> outcome = Outcome("lists", "newest first", "sync", "passed")
        >>> outcome.status
        'passed'
    """

    group: str
    """The part of the contract."""
    clause: str
    """The clause."""
    colour: Api  # the name is public
    """The API that was tried: "sync" or "async"."""
    status: Status
    """How it went."""
    reason: str = ""
    """Why it failed or was skipped."""
    error: BaseException | None = None
    """The error that was raised."""
    about: str = ""
    """The clause as a sentence."""

    def __str__(self) -> str:
        line = f"{self.status:7} {self.colour:5} {self.group}: {self.clause}"
        return f"{line}\n        {self.reason}" if self.reason else line


@dataclass(frozen=True, slots=True)
class Report:
    """How all clauses went.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import all_clauses, check_saver
        >>> report = check_saver(InMemorySaver, groups=[all_clauses()[0].group])
        >>> report.raise_failures()
    """

    saver: str
    """The name of the saver's class."""
    outcomes: tuple[Outcome, ...]
    """One for each clause and API."""

    @property
    def passed(self) -> tuple[Outcome, ...]:
        """Clauses that the saver keeps."""
        return self._with("passed")

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """Clauses that it breaks."""
        return self._with("failed")

    @property
    def skipped(self) -> tuple[Outcome, ...]:
        """Clauses that are not about a saver of this kind."""
        return self._with("skipped")

    @property
    def ok(self) -> bool:
        """Whether some clauses passed and none failed."""
        return bool(self.passed) and not self.failed

    def raise_failures(self) -> None:
        """Raise ClauseFailed if any clause failed."""
        if self.failed:
            raise ClauseFailed(str(self))

    def _with(self, status: Status) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.status == status)

    def __str__(self) -> str:
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed"
        head = f"{self.saver}: {counts}, {len(self.skipped)} skipped"
        return "\n".join([head, *map(str, self.failed)])


@dataclass(frozen=True, slots=True)
class Subject:
    """The saver that is tested, and what cannot be found out by looking at it."""

    factory: Factory
    persistent: bool = False
    keeps_history: bool = True

    def check(self, clause: Clause, api: Api) -> Outcome:
        """Run one clause in one API."""
        outcome = partial(Outcome, clause.group, clause.name, api, about=clause.about)
        try:
            # In a thread of its own: a saver that hangs fails, and does not hang the suite.
            reason = answer(in_own_thread(self._attempt, clause, api), LIMIT)
        except ClauseFailed as error:
            return outcome("failed", f"{clause.about} {error}", error)
        except Exception as error:
            return outcome("failed", f"{clause.about} It raised {error!r}.", error)
        return outcome("passed") if reason is None else outcome("skipped", reason)

    def _attempt(self, clause: Clause, api: Api) -> str | None:
        """Run a clause; why it does not apply, if it does not."""
        with Runner(self.factory, api) as runner:
            lacks = self._lacks(runner, api)
            for trait in clause.needs:
                if trait in lacks:
                    return lacks[trait]
            try:
                runner.perform(clause.body(SaverFixture(runner.saver)))
            except NotImplementedError as error:
                # A saver that wraps another has methods which the other may lack.
                if clause.needs.isdisjoint(OPTIONAL):
                    raise
                return f"{type(runner.saver).__name__} does not implement it: {error!r}"
        return None

    def _lacks(self, runner: Runner, api: Api) -> dict[Trait, str]:
        """The traits that the saver does not have, each with the reason to skip what needs it."""
        saver = runner.saver
        name = type(saver).__name__
        lacks: dict[Trait, str] = {}
        refusal = _refusal(runner, api)
        if refusal is None:
            lacks[Trait.NO_METHODS] = f"{name} has {api} methods"
        else:
            lacks[Trait.METHODS] = f"{name} has no {api} methods: {refusal}"
        for trait in OPTIONAL:
            if not has(saver, trait, api):
                lacks[trait] = f"{name} does not implement {named(trait, api)}()"
        if not all(hasattr(saver, named(method, api)) for method in REGISTRY):
            lacks[Trait.REGISTRY] = f"{name} has no {Trait.REGISTRY}"
        if not hasattr(saver, named("create_thread", api)):
            lacks[Trait.CREATION] = f"{name} has no {Trait.CREATION}"
        if not isinstance(saver, StepSaver):
            lacks[Trait.STEPS] = f"{name} is no StepSaver"
        if not self.keeps_history:
            lacks[Trait.HISTORY] = f"{name} keeps the latest checkpoint only"
        if not self.persistent:
            lacks[Trait.PERSISTENCE] = "it was not said that the factory is persistent"
        return lacks


def check_saver(
    factory: Factory,
    *,
    persistent: bool = False,
    keeps_history: bool = True,
    groups: Collection[str] | None = None,
) -> Report:
    """Run the suite, or some groups of it, on a saver, and report.

    Args:
        factory: Is called for every clause. It may return the saver, be async, or be a sync or
            async context manager; its storage need not be empty.
        persistent: Whether the next call leads to the same storage: then reopening is tested too.
        keeps_history: Whether more than the latest checkpoint is kept.
        groups: Names of groups; all by default.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import all_clauses, check_saver
        >>> report = check_saver(InMemorySaver, groups=[all_clauses()[0].group])
        >>> {outcome.status for outcome in report.outcomes} <= {"passed", "skipped"}
        True
    """
    subject = Subject(factory, persistent, keeps_history)
    clauses = all_clauses(groups)
    outcomes = tuple(subject.check(clause, api) for api in APIS for clause in clauses)
    return Report(getattr(factory, "__qualname__", repr(factory)), outcomes)


def saver_tests(
    factory: Factory,
    *,
    persistent: bool = False,
    keeps_history: bool = True,
    groups: Collection[str] | None = None,
) -> Callable[..., None]:
    """A test for every clause, to be given a name that pytest collects.

    Args:
        factory: As for `check_saver`; its parameters without a default are fixtures:
            `saver_tests(lambda tmp_path: MySaver(tmp_path))`.
        persistent: As for `check_saver`.
        keeps_history: As for `check_saver`.
        groups: As for `check_saver`.

    Raises:
        MissingDependencyError: pytest is not installed.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import saver_tests
        >>> test_my_saver = saver_tests(InMemorySaver)
    """
    try:
        import pytest
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "saver_tests makes tests for pytest: run `pip install pytest`. Without it, "
            "check_saver runs the same clauses."
        ) from error

    fixtures = [
        name
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]

    def test(saver_api: Api, clause: Clause, **given: Any) -> None:
        subject = Subject(partial(factory, **given), persistent, keeps_history)
        outcome = subject.check(clause, saver_api)
        if outcome.status == "skipped":
            pytest.skip(outcome.reason)
        if outcome.error is not None:
            pytest.fail(outcome.reason, pytrace=False)

    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        for name in ("saver_api", "clause", *fixtures)
    ]
    test.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    table = [
        pytest.param(api, clause, id=f"{api}-{clause.group}-{clause.name}")
        for api in APIS
        for clause in all_clauses(groups)
    ]
    marked: Callable[..., None] = pytest.mark.parametrize(("saver_api", "clause"), table)(test)
    return marked


# -- what a saver can do


FIVE = ("put", "put_writes", "get_tuple", "list", "delete_thread")
OPTIONAL = (Trait.COPIES, Trait.PRUNING, Trait.RUNS)
"""Methods that a saver may leave out; the trait is the name of the method."""
REGISTRY = ("list_threads", "get_thread", "set_thread_metadata")


def named(method: str, api: Api) -> str:
    """The name of a method in the sync or the async API."""
    return method if api == "sync" else f"a{method}"


def has(saver: BaseCheckpointSaver[Any], method: str, api: Api) -> bool:
    """Whether the saver's class has a method of its own in this API."""
    name = named(method, api)
    return getattr(type(saver), name, None) is not getattr(BaseCheckpointSaver, name, None)


def _refusal(runner: Runner, api: Api) -> str | None:
    """Why the saver has no methods in this API; None if it has."""
    if not any(has(runner.saver, method, api) for method in FIVE):
        return "they are left out"
    # Some savers have the methods only to say that they are of the other kind.
    config = {"configurable": {"thread_id": random_token()}}
    error = runner.perform(caught(call(runner.saver, "get_tuple", config)))
    return str(error) if isinstance(error, NotImplementedError | ColourError) else None
