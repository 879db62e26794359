"""Another name of `milepost.channels.ephemeral`."""

from milepost.channels.ephemeral import EphemeralValue

__all__ = ["EphemeralValue"]
