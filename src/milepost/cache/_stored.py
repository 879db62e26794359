"""What caches outside this process share: values in their stored form, and misses."""

from __future__ import annotations

from collections.abc import Iterable

from milepost._internal import log
from milepost.cache.base import BaseCache, FullKey, ValueT


class StoredCache(BaseCache[ValueT]):
    """A cache whose entries other programs may have written."""

    def decoded(self, rows: Iterable[tuple[FullKey, tuple[str, bytes]]]) -> dict[FullKey, ValueT]:
        """The values of entries, except of those that cannot be read: their nodes run.

        Args:
            rows: The namespace and key of each entry, the tag of its stored form, and its bytes.
        """
        values: dict[FullKey, ValueT] = {}
        for name, stored in rows:
            try:
                values[name] = self.serde.loads_typed(stored)
            except Exception as error:  # whatever a serializer of the program's own raises
                message = "A cached result of %s cannot be read (%s), so it counts as missing."
                log.warning(log.STORAGE, message, "/".join(name[0]), error)
        return values
