"""Sentinels that channels store and that every saver must carry unchanged."""

from __future__ import annotations

from milepost.types import _DeltaSnapshot

__all__ = ["_DeltaSnapshot"]
