"""What caches outside this process share: values in their stored form, and misses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from milepost._internal import log
from milepost.cache.base import FullKey
from milepost.checkpoint.serde.base import SerializerProtocol


def decoded(
    serde: SerializerProtocol, rows: Iterable[tuple[FullKey, tuple[str, bytes]]]
) -> dict[FullKey, Any]:
    """The values of entries that other programs may have written, except of those that cannot be
    read: their nodes run.

    `rows` are the namespace and key of each entry, the tag of its stored form, and its bytes.
    """
    values: dict[FullKey, Any] = {}
    for name, stored in rows:
        try:
            values[name] = serde.loads_typed(stored)
        except Exception as error:  # whatever a serializer of the program's own raises
            message = "A cached result of %s cannot be read (%s), so it counts as missing."
            log.warning(log.STORAGE, message, "/".join(name[0]), error)
    return values
