"""Runs a part of a test in a forked child process."""

import faulthandler
import gc
import os
import pickle
import select
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

LIMIT = 30.0
"""Seconds after which a child is taken to hang."""


class Child:
    """A forked process that calls a function, and tells what came of it."""

    def __init__(self, function: Callable[[], Any], *, ends: Callable[[], None] | None = None):
        self._ours, theirs = os.pipe()
        self._stacks, path = tempfile.mkstemp()
        os.unlink(path)
        gc.collect()  # what other tests have left behind is not what is forked here
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads: that they work is what is tested.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._ours)
                faulthandler.dump_traceback_later(LIMIT - 5, file=self._stacks)
                os.write(theirs, pickle.dumps(_outcome(function)))
                os.close(theirs)
                if ends is not None:
                    ends()
            finally:
                os._exit(0)
        os.close(theirs)

    def result(self) -> Any:
        """What the function returned; an error that it raised is raised here."""
        data = b""
        until = time.monotonic() + LIMIT
        try:
            while True:
                left = until - time.monotonic()
                if left <= 0 or not select.select([self._ours], [], [], left)[0]:
                    os.kill(self.pid, signal.SIGKILL)
                    stacks = os.pread(self._stacks, 100_000, 0).decode()
                    raise AssertionError(f"the child has not ended within {LIMIT} s:\n{stacks}")
                if not (read := os.read(self._ours, 65536)):
                    break
                data += read
        finally:
            os.close(self._ours)
            self.wait()
        result, error, trace = pickle.loads(data)
        if error is not None:
            error.add_note(trace)
            raise error
        return result

    def wait(self) -> None:
        """Wait for the end of the process."""
        os.close(self._stacks)
        until = time.monotonic() + LIMIT
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"the child has not exited within {LIMIT} s")
            time.sleep(0.005)


def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None, str]:
    try:
        return function(), None, ""
    except BaseException as error:
        error.__traceback__, trace = None, traceback.format_exc()
        error.__cause__ = error.__context__ = None
        return None, error, trace
