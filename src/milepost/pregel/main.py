"""`Pregel`, the class of all graphs that can run, and `NodeBuilder`, which describes a node."""

from milepost.graph._compiled import Pregel
from milepost.graph._node_builder import ChannelWriteEntry, NodeBuilder

__all__ = ["ChannelWriteEntry", "NodeBuilder", "Pregel"]
