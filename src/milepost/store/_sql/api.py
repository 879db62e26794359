"""What the stores in SQL databases have in common: an engine carries out their transactions."""

from __future__ import annotations

from typing import Any

from milepost._db.migrations import TableSetup
from milepost.store._core.engine_api import EngineStore
from milepost.store._core.records import Result
from milepost.store._core.tasks import Group, Transact
from milepost.store._sql.core import SqlCore


class SqlStore(EngineStore):
    """A store in a SQL database, with the sync names of its methods."""

    def __init__(self, engine: Any, core: SqlCore) -> None:
        super().__init__(engine, core)
        self._sql_core = core

    def _drive_group(self, group: Group) -> list[Result]:
        put = self._sql_core.single_put(group)
        if put is None:
            return super()._drive_group(group)
        self._engine.run(put, write=True)
        return [None]

    def _transact(self, request: Transact | TableSetup) -> Any:
        if isinstance(request, TableSetup):
            return self._engine.set_up(request)
        return self._engine.run(request.work, write=request.write)

    async def _atransact(self, request: Transact | TableSetup) -> Any:
        if isinstance(request, TableSetup):
            return await self._engine.aset_up(request)
        return await self._engine.arun(request.work, write=request.write)
