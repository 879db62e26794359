"""What came out of a run of the suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from milepost.testing._kit.errors import ClauseFailed
from milepost.testing._kit.runner import Api

Status = Literal["passed", "failed", "skipped"]


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
    """What was raised."""
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
