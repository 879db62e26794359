"""Runs a program that was written for LangGraph, unchanged, on milepost."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from milepost.integrations.langgraph._alias import import_hook


def run_program(arguments: Sequence[str], original: Sequence[str] = ()) -> None:
    """Run `program.py …` or `-m module …` as Python would, with `langgraph` meaning milepost.

    `original` names packages below `langgraph` that are LangGraph's own.
    What the program raises, SystemExit included, comes out as it is.
    """
    import_hook.install(original)
    first, *rest = arguments
    if first == "-m":
        module, *rest = rest
        sys.argv = [module, *rest]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv = [first, *rest]
    sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
    runpy.run_path(first, run_name="__main__")
