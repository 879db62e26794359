"""What user interfaces build on: single checkpoints, and graphs of either library.

The functions of `milepost.inspect` each answer a whole question. An interface of its own, such as
the server, needs their parts: find and read a checkpoint, recognise a graph, translate errors.
"""

from milepost.inspect._data import fields_of, limited
from milepost.inspect._errors import told_plainly
from milepost.inspect._graphs import is_langgraph, records_of, refusing
from milepost.inspect._log import Follower
from milepost.inspect._reading import id_of, load, parent_of, state_of
from milepost.inspect._refs import resolve, without_tags
from milepost.inspect._runs import settle
from milepost.inspect._tasks import next_nodes, step_at
from milepost.inspect._thread_admin import check_threads_exist

__all__ = [
    "Follower",
    "check_threads_exist",
    "fields_of",
    "id_of",
    "is_langgraph",
    "limited",
    "load",
    "next_nodes",
    "parent_of",
    "records_of",
    "refusing",
    "resolve",
    "settle",
    "state_of",
    "step_at",
    "told_plainly",
    "without_tags",
]
