"""A sync method of a graph and its async form, made of one program of effects."""

from __future__ import annotations

from milepost._engine.drivers import async_driver
from milepost._engine.drivers.sync import SyncDriver, SyncReader
from milepost._internal.generators import method_pairs

sync_and_async = method_pairs(
    lambda _, program, _name: SyncDriver().run(program),
    lambda _, program, _name: async_driver().run(program),
)
reading = method_pairs(
    lambda _, program, _name: SyncReader().run(program),
    lambda _, program, _name: async_driver().run(program),
)
"""For what calls no node."""
