"""The parent's side of a worker: a process that is told what to do and answers."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 90.0
"""Seconds in which any call must end. Waiting for a server that restarts takes 20 of them."""


class Hangs(Exception):
    """A worker does not answer. The message has the stacks of its threads."""


class Process:
    """One worker. A slot has several of them one after the other, if they are killed."""

    def __init__(self, directory: Path, slot: int, life: int, older: str = "") -> None:
        """`older` is a folder with another milepost, for this process to run."""
        self.slot, self.life = slot, life
        self.directory = directory
        self._answers: queue.Queue[str] = queue.Queue()
        self._errors = open(directory / f"errors-{slot}.{life}.txt", "w")  # noqa: SIM115
        tests = Path(__file__).parent.parent
        paths = [str(tests), older, os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack.worker", str(directory), str(slot), str(life)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def name(self) -> str:
        return f"{self.slot}.{self.life}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line.strip())
        self._answers.put("")

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()

    def wait_for(self, word: str, patience: float = PATIENCE) -> str:
        """The rest of the answer that begins with this word."""
        while True:
            try:
                line = self._answers.get(timeout=patience)
            except queue.Empty:
                raise Hangs(f"{self.name} does not say {word}:\n{self.stacks()}") from None
            if not line:
                raise Hangs(f"{self.name} ended before it said {word}:\n{self.errors()}")
            first, _, rest = line.partition(" ")
            if first == word:
                return rest

    def stacks(self) -> str:
        """Where its threads are."""
        self.signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # it does not end by that, but has time to write
        return (self.directory / f"stacks-{self.name}.txt").read_text()

    def errors(self) -> str:
        return (self.directory / f"errors-{self.name}.txt").read_text()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._close()

    def end(self, patience: float = PATIENCE) -> dict[str, Any]:
        """Let it stop by itself. Returns what it has left open."""
        self.tell("stop")
        left: dict[str, Any] = json.loads(self.wait_for("stopped", patience))
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise Hangs(f"{self.name} does not exit:\n{self.stacks()}") from None
        left["code"] = self._process.returncode
        left["stderr"] = self.errors()
        self._close()
        return left

    def _close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._reading.join(10)
        self._process.stdout.close()
        self._errors.close()
