"""milepost: a durable graph runtime.

A program is a graph of nodes over a shared state. The runtime advances in super-steps and saves a
checkpoint at each, so that a run can be resumed, replayed and forked.
"""

from typing import TYPE_CHECKING

from milepost._internal.lazy_imports import on_demand
from milepost.constants import END, START
from milepost.graph import StateGraph
from milepost.types import Command, Send, interrupt

if TYPE_CHECKING:
    from milepost._internal.version import __version__
else:
    __getattr__, __dir__ = on_demand(__name__, {"__version__": "milepost._internal.version"})

__all__ = ["END", "START", "Command", "Send", "StateGraph", "__version__", "interrupt"]
