"""Type parameters of graphs, for programs that write generic functions over them."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

from milepost.graph._typing import ContextT, InputT, OutputT, StateT

__all__ = ["ContextT", "InputT", "OutputT", "StateT", "StateT_co", "StateT_contra"]

StateT_co = TypeVar("StateT_co", default=Any, covariant=True)
"""The state of a graph, where it is only given out."""

StateT_contra = TypeVar("StateT_contra", default=Any, contravariant=True)
"""The state of a graph, where it is only taken in."""
