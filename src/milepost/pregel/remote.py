"""A graph that runs on a server."""

from milepost.pregel._remote.call import RemoteException
from milepost.pregel._remote.graph import RemoteGraph
from milepost.pregel.protocol import PregelProtocol

PregelProtocol.register(RemoteGraph)

__all__ = ["RemoteException", "RemoteGraph"]
