"""The suite as tests of pytest, each clause in each API a test with a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from milepost.errors import MissingDependencyError
from milepost.testing._kit.checking import APIS, Subject
from milepost.testing._kit.clauses import Clause, all_clauses
from milepost.testing._kit.runner import Api, Factory


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
