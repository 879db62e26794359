"""Settings of stores in PostgreSQL, and what they have in common."""

from milepost.store._vectors.postgres import (
    ANNIndexConfig,
    HNSWConfig,
    IVFFlatConfig,
    PostgresIndexConfig,
)
from milepost.store.postgres import BasePostgresStore, PoolConfig, PostgresStore

__all__ = [
    "ANNIndexConfig",
    "BasePostgresStore",
    "HNSWConfig",
    "IVFFlatConfig",
    "PoolConfig",
    "PostgresIndexConfig",
    "PostgresStore",
]
