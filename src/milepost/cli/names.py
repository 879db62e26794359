"""The commands by name, known without importing what they need."""

from __future__ import annotations

from typing import Final, NamedTuple

GRAPH_VARIABLE: Final = "MILEPOST_GRAPH"
"""The environment variable that names a graph."""


class Command(NamedTuple):
    """Where a command is, and what it does."""

    module: str
    group: str
    help: str


_LOOK: Final = "Look"
_GO_ON: Final = "Go on"
_KEEP: Final = "Keep and remove"

COMMANDS: Final = {
    "threads": Command("threads", _LOOK, "list threads"),
    "show": Command("threads", _LOOK, "the state of a thread, what follows, what it asks"),
    "log": Command("history", _LOOK, "the checkpoints of a thread, with forks"),
    "diff": Command("history", _LOOK, "what differs between two states"),
    "blame": Command("history", _LOOK, "which step, node and run wrote a value"),
    "bisect": Command("history", _LOOK, "the first checkpoint where an expression is true"),
    "tail": Command("history", _LOOK, "follow a thread that is running"),
    "tags": Command("history", _LOOK, "the tags of a thread"),
    "stats": Command("threads", _LOOK, "what takes how much room"),
    "run": Command("runs", _GO_ON, "run a graph with an input"),
    "answer": Command("runs", _GO_ON, "answer what a thread asks"),
    "resume": Command("runs", _GO_ON, "go on where a thread stopped"),
    "fork": Command("runs", _GO_ON, "start a branch at a checkpoint, with changes"),
    "merge": Command("runs", _GO_ON, "bring the changes of a branch to another"),
    "tag": Command("history", _GO_ON, "name a checkpoint"),
    "copy": Command("thread_admin", _KEEP, "copy a thread"),
    "delete": Command("thread_admin", _KEEP, "remove threads"),
    "erase": Command("thread_admin", _KEEP, "remove threads for good"),
    "prune": Command("thread_admin", _KEEP, "remove history"),
    "dump": Command("database_admin", _KEEP, "write threads to a file"),
    "load": Command("database_admin", _KEEP, "store the threads of a file"),
    "verify": Command("database_admin", _KEEP, "check every row"),
    "salvage": Command("database_admin", _KEEP, "read what is sound of a damaged thread"),
    "reencrypt": Command("database_admin", _KEEP, "seal everything with the newest key"),
    "migrate": Command("database_admin", _KEEP, "check every thread against the code of today"),
    "completion": Command("completion", _KEEP, "completion for a shell"),
}
"""In the order in which the help shows them."""

BARE: Final = {
    "demo": "kill a run, resume it, and fork its history, in a few seconds",
    "run": "run a LangGraph program on milepost, unchanged",
    "import": "copy threads and store items from a LangGraph database",
    "export": "copy threads and store items to a LangGraph database",
    "ui": "look at threads in the browser",
}
"""Commands that work without the extra, and what they do."""
