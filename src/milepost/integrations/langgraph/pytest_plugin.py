"""`pytest --as-langgraph`: tests that were written for LangGraph, run on milepost."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from milepost.integrations.langgraph import _alias


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option.

    Args:
        parser: Pytest's.
    """
    group = parser.getgroup("milepost")
    group.addoption(
        "--as-langgraph",
        action="store_true",
        default=False,
        help="answer every `import langgraph` with milepost",
    )
    group.addoption(
        "--original-langgraph",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="with --as-langgraph: load this package below langgraph, such as prebuilt, from where "
        "LangGraph is installed",
    )


# A wrapper, because pytest's own wrapper imports the classes that `filterwarnings` names.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Before any conftest, or any filter of warnings, can import langgraph.

    Args:
        early_config: Pytest's.
    """
    options = early_config.known_args_namespace
    if options.as_langgraph:
        _alias.install(options.original_langgraph)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """For a plugin that was loaded too late for the above, as in the workers of pytest-xdist.

    Args:
        config: Pytest's.
    """
    if config.getoption("as_langgraph"):
        _alias.install(config.getoption("original_langgraph"))
