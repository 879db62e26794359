"""The version of milepost."""

from milepost._internal.version import __version__

__all__ = ["__version__"]
