"""What caches outside this process share: values in their stored form, and misses."""

from __future__ import annotations

from typing import Any, Final

from milepost._internal import log
from milepost.cache.base import BaseCache, FullKey, ValueT
from milepost.errors import SerdeError

MISS: Final = object()
"""There is no value, or none that this program can read."""


class StoredCache(BaseCache[ValueT]):
    """A cache whose entries other programs may have written."""

    def decoded(self, name: FullKey, kind: str, data: bytes) -> Any:
        """The value of an entry; MISS if it cannot be read, so that the node runs.

        Args:
            name: The namespace and key of the entry.
            kind: The tag of its stored form.
            data: Its bytes.
        """
        try:
            return self.serde.loads_typed((kind, data))
        except SerdeError as error:
            message = "A cached result of %s cannot be read (%s), so it counts as missing."
            log.warning(log.STORAGE, message, "/".join(name[0]), error)
            return MISS
