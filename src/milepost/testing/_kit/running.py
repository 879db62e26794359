"""Runs clauses on a saver: one of them for a test, or all of them for a report."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from milepost.testing._kit.clauses import Clause, all_clauses
from milepost.testing._kit.errors import ClauseFailed
from milepost.testing._kit.report import Outcome, Report, Status
from milepost.testing._kit.runner import Api, Factory, InThread, Runner
from milepost.testing._kit.saver_fixture import SaverFixture
from milepost.testing._kit.traits import OPTIONAL, missing_traits

APIS: tuple[Api, ...] = ("sync", "async")
LIMIT = 120.0
"""Seconds that a clause may take before the saver is said to hang."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The saver that is tested, and what cannot be found out by looking at it."""

    factory: Factory
    persistent: bool = False
    keeps_history: bool = True

    def check(self, clause: Clause, api: Api) -> Outcome:
        """Run one clause in one API."""
        outcome = partial(Outcome, clause.group, clause.name, api, about=clause.about)
        status: Status = "passed"
        try:
            # In a thread of its own: a saver that hangs fails, and does not hang the suite.
            reason = InThread(self._attempt, clause, api).result(LIMIT)
        except ClauseFailed as error:
            return outcome("failed", f"{clause.about} {error}", error)
        except Exception as error:
            return outcome("failed", f"{clause.about} It raised {error!r}.", error)
        if reason is not None:
            status = "skipped"
        return outcome(status, reason or "")

    def _attempt(self, clause: Clause, api: Api) -> str | None:
        """Run a clause; why it does not apply, if it does not."""
        with Runner(self.factory, api) as runner:
            lacks = missing_traits(
                runner, api, persistent=self.persistent, keeps_history=self.keeps_history
            )
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
