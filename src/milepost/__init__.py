"""milepost: a durable graph runtime.

A program is a graph of nodes over a shared state. The runtime advances in super-steps and saves a
checkpoint at each, so that a run can be resumed, replayed and forked.
"""

from milepost.constants import END, START
from milepost.graph import StateGraph
from milepost.types import Command, Send, interrupt

__all__ = ["END", "START", "Command", "Send", "StateGraph", "interrupt"]
