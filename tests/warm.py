"""Programs that a test starts by the dozen, without importing the same modules in each.

A process imports them once, and each program runs in a fork of it, from its first line to the end
of its interpreter: a process of its own that can be killed, and that has opened nothing before.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENGINE = (
    "milepost.graph._compiled_state",
    "milepost.checkpoint.sqlite.aio",
    "milepost._engine.update",
    "milepost._engine.drivers.aio",
    "milepost._engine.drivers.sync",
)
"""What a program with a graph and a saver on SQLite loads, most of it when it is needed."""

LANGCHAIN = (
    "langchain_core.language_models.fake_chat_models",
    "langchain_core.runnables.graph",
    "langchain_core.tools",
    "langchain_core.tracers.log_stream",
    "langsmith.client",
    "pydantic.dataclasses",
)
"""What LangGraph stands on, without itself: a fork imports LangGraph or milepost in its place."""

LIMIT = 60
"""Seconds after which a program is taken to hang, and is killed."""


class Warm:
    """Starts programs in forks of one process, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, program: str | Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
        """Like `subprocess.run([sys.executable, program, *arguments], capture_output=True)`.

        `"-m"` and the name of a module are a program as well.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = [str(program), *map(str, arguments)]
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            self._process.stdin.write(json.dumps([str(out), str(err), command]) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(command, status, out.read_text(), err.read_text())


@contextmanager
def warm(*modules: str, cwd: Path | None = None, **environment: str) -> Iterator[Warm]:
    """With these modules imported, in this directory, and these variables set."""
    with subprocess.Popen(
        [sys.executable, __file__, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **environment},
        text=True,
    ) as process:
        yield Warm(process)
        process.communicate()


def _forked() -> tuple[str, str, list[str]] | None:
    """In each fork what it has to run, and nothing in the process itself, in the end."""
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            out, err, command = json.loads(line)
            return out, err, command
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def _program(out: str, err: str, command: list[str]) -> Any:
    """The code to run, after this process looks like one that was started for it."""
    for number, name in enumerate((os.devnull, out, err)):
        opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    signal.alarm(LIMIT)
    if command[0] == "-m":
        sys.argv, sys.path[0] = command[1:], os.getcwd()
        return f"import runpy; runpy.run_module({command[1]!r}, None, '__main__', True)"
    sys.argv, sys.path[0] = command, os.path.dirname(command[0])
    code = compile(Path(command[0]).read_bytes(), command[0], "exec")
    names = globals()
    names["__file__"] = command[0]
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    return code


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    if (given := _forked()) is not None:
        # In this module, so that what the program holds lives until the interpreter ends.
        exec(_program(*given))
