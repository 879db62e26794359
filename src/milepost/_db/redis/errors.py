"""Errors of Redis clients: classified, and translated into ours."""

from __future__ import annotations

import re
import sys
from typing import Final

from milepost.errors import (
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    OutcomeUnknownError,
    ReadOnlyError,
    SaverError,
    StorageError,
    StorageFullError,
)

_LOST_NAMES: Final = ("ConnectionError", "TimeoutError")
_BASE_NAMES: Final = (
    "RedisError",
    "ValkeyError",
    "RedisClusterException",
    "ValkeyClusterException",
)
_IN_SCRIPT: Final = re.compile(r"^Error running script .*@user_script: ?\d+: -?", re.DOTALL)
"""Before what went wrong in a script, on Redis 6."""


def named(*names: str) -> tuple[type[BaseException], ...]:
    """The error classes with these names, of redis-py and valkey-py if these are imported."""
    loaded = (sys.modules.get(f"{client}.exceptions") for client in ("redis", "valkey"))
    found = [getattr(module, name, None) for module in loaded if module for name in names]
    return tuple(one for one in found if one is not None)


def client_errors() -> tuple[type[BaseException], ...]:
    """The base classes of all errors that a client raises. OSError comes from connecting."""
    return (*named(*_BASE_NAMES), OSError)


def is_lost(error: BaseException) -> bool:
    """Whether the connection was lost or refused, so that another attempt may succeed."""
    if isinstance(error, named("AuthenticationError", "AuthorizationError", "MaxConnectionsError")):
        return False
    if isinstance(error, named(*_LOST_NAMES)):
        return True
    return isinstance(error, (OSError, EOFError)) or is_passing(error)


def is_passing(error: BaseException) -> bool:
    """Whether the server or its cluster is not ready yet. The command was not carried out."""
    if isinstance(error, named("BusyLoadingError", "TryAgainError", "ClusterDownError")):
        return True
    return str(error).startswith(("LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN"))


def is_moved(error: BaseException) -> bool:
    """Whether a cluster has moved the key to another node. The command was not carried out."""
    return isinstance(error, named("MovedError", "AskError", "SlotNotCoveredError"))


def is_barred(error: BaseException) -> bool:
    """Whether the server forbids this user a command."""
    return isinstance(error, named("NoPermissionError")) or str(error).startswith("NOPERM")


def bars_scripts(error: BaseException) -> bool:
    """Whether the server, or a proxy before it, forbids this user to run scripts."""
    text = str(error).lower()
    if is_barred(error):
        return "eval" in text or "script" in text or "command" in text
    return ("unknown command" in text or "disabled" in text) and "eval" in text


def translated(error: BaseException, owner: str) -> SaverError:
    """Our error for a client's error."""
    text = _IN_SCRIPT.sub("", str(error))
    if isinstance(error, named("OutOfMemoryError")) or text.startswith("OOM"):
        return StorageFullError(
            f"{owner}: the server has reached its maxmemory, and wrote nothing of this call. Give "
            f"it more memory, or remove what is not needed, then repeat the call. ({text})"
        )
    if isinstance(error, named("ReadOnlyError")) or text.startswith("READONLY"):
        return ReadOnlyError(
            f"{owner}: the server is a replica and can only be read; nothing was written. After a "
            "fail-over connect to the new primary: use its address, a Sentinel client or a "
            f"cluster client. ({text})"
        )
    if text.startswith(("MISCONF", "NOREPLICAS")):
        return StorageError(
            f"{owner}: the server refuses to write, because it cannot keep what is written safe. "
            f"Look into its log. ({text})"
        )
    if isinstance(error, named("AuthenticationError", "AuthorizationError", "NoPermissionError")):
        return ConnectionUnusableError(
            f"{owner}: the server does not let this user in, or bars a command. See that the user, "
            f"the password and the rights (ACL) are right. ({text})"
        )
    if isinstance(error, named("MaxConnectionsError")):
        return DatabaseBusyError(
            f"{owner}: all connections of the client's pool are in use. Give it a larger "
            f"max_connections, or a BlockingConnectionPool. ({text})"
        )
    if "DB index" in text:
        return ConnectionUnusableError(
            f"{owner}: the server has no database of this number. Write a smaller one at the end "
            f"of the address, as in redis://host:6379/0. ({text})"
        )
    if text.startswith("WRONGTYPE"):
        return ForeignDatabaseError(
            f"{owner}: a key that it uses holds something else. Another program uses the same key "
            f"prefix; choose another prefix, or another database. ({text})"
        )
    if "cross" in text.lower() and "slot" in text.lower():
        return SaverError(f"{owner}: keys of one operation lie in several slots. ({text})")
    if is_passing(error):
        return DatabaseBusyError(
            f"{owner}: the server is loading its data or its cluster is not complete. Repeat the "
            f"call later. ({text})"
        )
    if is_lost(error):
        return ConnectionUnusableError(
            f"{owner}: the connection to the server was lost or refused. See that the server runs "
            f"and takes connections at this address. ({text or type(error).__name__})"
        )
    return SaverError(f"{owner}: {text or type(error).__name__}.")


MAX_ARGUMENT: Final = 512 * 2**20
"""The default of a server's proto-max-bulk-len. It ends the connection at a longer argument."""


def outcome_unknown(error: BaseException, owner: str, longest: int = 0) -> OutcomeUnknownError:
    """The error for a change whose reply was lost. `longest` is the size of its largest value."""
    limit = ""
    if longest > MAX_ARGUMENT:
        limit = (
            f" A value has {longest >> 20} MiB: a server ends the connection at one of more than "
            "its proto-max-bulk-len, 512 MiB by default, and stores nothing."
        )
    return OutcomeUnknownError(
        f"{owner}: the connection was lost while a change was on its way ({error}), so that it is "
        f"unknown whether it was stored. Read what is there now, and decide.{limit}"
    )
