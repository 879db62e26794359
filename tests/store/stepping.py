"""Operations that stop where a test wants them to, so that two of them meet in a known order."""

from __future__ import annotations

import threading
import time

LIMIT = 30
"""Seconds after which a test that hangs is ended."""


class Gate:
    """A place at which one operation waits until the test lets it pass."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self):
        self.reached.set()
        assert self.opened.wait(LIMIT), "nobody opened the gate"


class PausingEngine:
    """An engine whose operations stop at a gate, before the first statement that has `text`."""

    def __init__(self, engine, text, gate):
        self._engine = engine
        self._text = text
        self._gate = gate

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def run(self, work, *, write):
        return self._engine.run(lambda: self._stepped(work()), write=write)

    def _stepped(self, operation):
        try:
            statement = next(operation)
            while True:
                if not self._gate.reached.is_set() and self._text in repr(statement):
                    self._gate.wait()
                statement = operation.send((yield statement))
        except StopIteration as done:
            return done.value


def pause(store, text):
    """Let the next operation of a store stop before the first statement with this text."""
    gate = Gate()
    store.use(PausingEngine(store._engine, text, gate))
    return gate


class Side:
    """A call in a thread of its own."""

    def __init__(self, call):
        self._call = call
        self.result = self.error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.result = self._call()
        except Exception as error:
            self.error = error

    @property
    def ended(self):
        return not self._thread.is_alive()

    def join(self):
        self._thread.join(LIMIT)
        assert self.ended, "the call hangs"
        if self.error is not None:
            raise self.error
        return self.result


def until_blocked(side, connection, number=1):
    """Wait until a call has ended or a lock of the server holds it up, as one of so many."""
    until = time.monotonic() + LIMIT
    while not side.ended:
        assert time.monotonic() < until, "the call neither ends nor waits for a lock"
        rows = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        ).fetchall()
        if len(rows) >= number:
            return
        time.sleep(0.005)
