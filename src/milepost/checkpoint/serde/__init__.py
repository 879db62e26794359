"""Values to bytes and back: exactly, safely, and, with a cipher, unreadable to others."""

from milepost.checkpoint.serde.registry import default_registry, register_migration, register_type

__all__ = ["default_registry", "register_migration", "register_type"]
