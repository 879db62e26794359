"""Look at threads: what is stored, what made it, what differs, and back to any of it.

The functions behind the command line (`milepost log`, `diff`, `blame`, …) and the page
(`milepost ui`). They work on databases of milepost and, for reading, of LangGraph, without the
program that wrote them: classes that are not known are shown as data and never imported.

    from milepost.inspect import Ref, diff, log, open_database

    with open_database("sqlite:///agent.db") as db:
        for entry in log(db, "customer-17", limit=10):
            print(entry.checkpoint_id, entry.writes)
        print(diff(db, Ref.parse("customer-17@~1"), Ref.parse("customer-17")))

The examples of this module go on from here, with a database in memory:

Examples:
    >>> from typing_extensions import TypedDict
    >>> from milepost import inspect
    >>> from milepost.checkpoint.memory import InMemorySaver
    >>> from milepost.graph import StateGraph
    >>> from milepost.inspect import Ref
    >>> class State(TypedDict):
    ...     n: int
    ...     city: str
    >>> nodes = [("find", lambda state: {"city": "Paris"}), ("count", lambda state: {"n": 2})]
    >>> builder = StateGraph(State).add_sequence(nodes).set_entry_point("find")
    >>> saver = InMemorySaver()
    >>> graph = builder.compile(checkpointer=saver)
    >>> graph.invoke({"n": 0}, {"configurable": {"thread_id": "trip"}})
    {'n': 2, 'city': 'Paris'}
    >>> db = inspect.Database.of(saver)
"""

# _open, _database                  an address becomes a Database
# _sources, _langgraph              what is read from each kind of database
# _refs, _reading                   a reference becomes a checkpoint and its state
# _stored, _data                    stored values become plain data
# _threads, _log, _tasks            threads, histories, and the tasks after a checkpoint
# _diff, _origin, _merge            states are compared, explained and merged
# _runs, _graphs                    graphs are loaded, and run on stored threads
# _thread_admin, _database_admin    copy, prune, erase; dump, verify, salvage

from milepost.inspect._data import as_data, part_of
from milepost.inspect._database import Database
from milepost.inspect._database_admin import (
    Checked,
    SalvagedState,
    check_threads,
    dump,
    load_dump,
    reencrypt,
    salvage,
    verify,
)
from milepost.inspect._diff import changes, compare, diff
from milepost.inspect._errors import (
    AmbiguousReferenceError,
    BadReferenceError,
    CannotOpenError,
    DamagedError,
    InspectError,
    MergeConflictError,
    ReadOnlyError,
    StateNotFoundError,
    ThreadNotFoundError,
)
from milepost.inspect._graphs import GraphNotFoundError, attached, load_graph, load_graphs
from milepost.inspect._log import GraphRow, graph_rows, log, tail
from milepost.inspect._merge import Merged, merge
from milepost.inspect._open import open_database
from milepost.inspect._origin import bisect, blame
from milepost.inspect._records import (
    Blame,
    Change,
    LogEntry,
    Page,
    Path,
    Question,
    Stats,
    TaskRow,
    ThreadRow,
    ThreadSize,
    ThreadView,
)
from milepost.inspect._refs import Ref, TagRow, tag, tags, untag
from milepost.inspect._runs import RunEvent, answer, fork, resume, run
from milepost.inspect._stored import StoredObject
from milepost.inspect._thread_admin import (
    copy_thread,
    delete_threads,
    erase_threads,
    matching,
    prune,
    prune_preview,
)
from milepost.inspect._threads import namespaces, show, stats, thread, threads

__all__ = [
    "AmbiguousReferenceError",
    "BadReferenceError",
    "Blame",
    "CannotOpenError",
    "Change",
    "Checked",
    "DamagedError",
    "Database",
    "GraphNotFoundError",
    "GraphRow",
    "InspectError",
    "LogEntry",
    "MergeConflictError",
    "Merged",
    "Page",
    "Path",
    "Question",
    "ReadOnlyError",
    "Ref",
    "RunEvent",
    "SalvagedState",
    "StateNotFoundError",
    "Stats",
    "StoredObject",
    "TagRow",
    "TaskRow",
    "ThreadNotFoundError",
    "ThreadRow",
    "ThreadSize",
    "ThreadView",
    "answer",
    "as_data",
    "attached",
    "bisect",
    "blame",
    "changes",
    "check_threads",
    "compare",
    "copy_thread",
    "delete_threads",
    "diff",
    "dump",
    "erase_threads",
    "fork",
    "graph_rows",
    "load_dump",
    "load_graph",
    "load_graphs",
    "log",
    "matching",
    "merge",
    "namespaces",
    "open_database",
    "part_of",
    "prune",
    "prune_preview",
    "reencrypt",
    "resume",
    "run",
    "salvage",
    "show",
    "stats",
    "tag",
    "tags",
    "tail",
    "thread",
    "threads",
    "untag",
    "verify",
]
