"""The annotations of a class itself, on every version of Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 14):
    from annotationlib import Format, get_annotations

    def own_annotations(cls: type) -> Mapping[str, Any]:
        """Names that a class annotates, without those of its bases; unresolved ones stay names."""
        return get_annotations(cls, format=Format.FORWARDREF)
else:

    def own_annotations(cls: type) -> Mapping[str, Any]:
        """Names that a class annotates, without those of its bases; unresolved ones stay names."""
        found: Mapping[str, Any] = vars(cls).get("__annotations__", {})
        return found
