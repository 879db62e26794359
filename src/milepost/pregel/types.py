"""Names that are in `milepost.types`, under the path that older programs import them from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.types import (
        All,
        CachePolicy,
        PregelExecutableTask,
        PregelTask,
        RetryPolicy,
        StateSnapshot,
        StateUpdate,
        StreamMode,
        StreamWriter,
    )
    from milepost.types import _retry_by_default as default_retry_on
else:
    import warnings

    from milepost import types as _types
    from milepost.warnings import LangGraphDeprecatedSinceV10

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(
            f"Importing {name} from milepost.pregel.types is deprecated: it is in milepost.types",
            LangGraphDeprecatedSinceV10,
            stacklevel=2,
        )
        return getattr(_types, "_retry_by_default" if name == "default_retry_on" else name)

    def __dir__():
        return __all__


__all__ = [
    "All",
    "CachePolicy",
    "PregelExecutableTask",
    "PregelTask",
    "RetryPolicy",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamWriter",
    "default_retry_on",
]
