"""Whether the optional accelerator in C is in use: `AVAILABLE`. `MILEPOST_PURE=1` leaves it out."""

from milepost._internal.native import AVAILABLE

__all__ = ["AVAILABLE"]
