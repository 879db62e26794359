"""Values to bytes and back: exactly, safely, and readable by nobody else."""

from milepost.checkpoint.serde.registry import default_registry, register_migration, register_type

__all__ = ["default_registry", "register_migration", "register_type"]
