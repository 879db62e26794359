"""What is known about what lies below a prefix: planners guess it badly.

It is looked up, and believed for a while. It decides how a search is done, never what it finds.
"""

from __future__ import annotations

from typing import Final

from milepost._db.operations import Operation, Query
from milepost.store._core.records import Namespace
from milepost.store._sql import statements as sql
from milepost.store._sql.dialects import StoreSql

WIDE: Final = 1000
"""So many items below a prefix are worth a look at as many that were updated last."""
_BELIEVED: Final = 100
_KEPT: Final = 1000


class Prefixes:
    """Remembers prefixes."""

    def __init__(self, store_sql: StoreSql) -> None:
        self._store_sql = store_sql
        self._widths: dict[Namespace, tuple[bool, int]] = {}
        self._deep: dict[Namespace, int] = {}

    def is_wide(self, prefix: Namespace) -> Operation[bool]:
        """Whether many items are below a prefix."""
        wide, believed = self._widths.get(prefix, (False, 0))
        if not believed:
            clause, parameters = self._store_sql.below_prefix(prefix)
            text = self._store_sql.render(sql.IS_WIDE.replace("@below@", clause))
            wide = bool((yield Query(text, (*parameters, WIDE))))
            if len(self._widths) >= _KEPT:
                self._widths.clear()
            believed = _BELIEVED
        self._widths[prefix] = wide, believed - 1
        return wide

    def is_deep(self, prefix: Namespace) -> bool:
        """Whether there were namespaces below this one, not long ago."""
        believed = self._deep.get(prefix)
        if believed is None:
            return not prefix
        if believed > 1:
            self._deep[prefix] = believed - 1
        else:
            del self._deep[prefix]
        return True

    def found_deep(self, prefix: Namespace) -> None:
        """There are namespaces below this one."""
        if len(self._deep) >= _KEPT:
            self._deep.clear()
        self._deep[prefix] = _BELIEVED
