"""Every public module, name, method and parameter of LangGraph is here too, or the page says why not.

docs/compatibility.md has a table of what is not there. A row begins with paths, as
`tests/integrations/surface.py` writes them; `*` stands for any text.
"""

from __future__ import annotations

import re
import warnings
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
from surface import Gap, gaps, modules

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
DISTRIBUTIONS = (
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "langgraph-prebuilt",
)

IN_PROGRESS: tuple[str, ...] = ()
"""What is being built. It is empty in a release."""

ALSO_IMPORTED = {
    "checkpoint.base": ("uuid6",),
    "constants": ("Interrupt", "Send"),
    "errors": ("create_error_message",),
    "graph.message": ("AnyMessage",),
    "graph.state": ("RunnableConfig",),
    "managed.base": ("ManagedValue", "is_managed_value"),
    "managed.is_last_step": ("IsLastStepManager", "RemainingSteps"),
    "runtime": ("DEFAULT_RUNTIME",),
}
"""Names that no module lists as its own, and that programs import from there all the same."""


@cache
def missing() -> tuple[Gap, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names warn when they are looked at
        return tuple(gaps("langgraph", DISTRIBUTIONS, "milepost"))


def rows() -> list[str]:
    """The paths in the first column of the table."""
    section = PAGE.read_text("utf-8").partition("## Names that are not there")[2]
    table = section.partition("\n#")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]


def explains(pattern: str, gap: Gap) -> bool:
    return fnmatchcase(gap.path, pattern)


def test_the_walk_sees_what_is_there():
    found = modules("langgraph", DISTRIBUTIONS)
    assert {"graph.state", "checkpoint.base", "store.postgres.aio", "prebuilt.tool_node"} <= {
        *found
    }
    assert not [name for name in found if name.startswith("_") or "._" in name]


def test_what_langgraph_has_is_here_or_has_a_row():
    known = [*rows(), *IN_PROGRESS]
    assert [str(gap) for gap in missing() if not any(explains(row, gap) for row in known)] == []


@pytest.mark.parametrize("row", rows())
def test_a_row_is_about_something_that_is_missing(row):
    assert any(explains(row, gap) for gap in missing()), f"{row} is there: take the row out"


@pytest.mark.parametrize("pattern", IN_PROGRESS)
def test_an_exception_is_about_something_that_is_missing(pattern):
    assert any(explains(pattern, gap) for gap in missing()), f"{pattern} is there: take it out"


@pytest.mark.parametrize(
    ("module", "name"), [(home, name) for home, names in ALSO_IMPORTED.items() for name in names]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_that_programs_import_from_elsewhere_are_there(module, name):
    import importlib

    assert hasattr(importlib.import_module(f"langgraph.{module}"), name)
    assert hasattr(importlib.import_module(f"milepost.{module}"), name)
