"""The warnings that milepost gives."""

from __future__ import annotations

__all__ = ["MilepostWarning"]


class MilepostWarning(UserWarning):
    """Something works, but probably not as it was meant. The message says what to change.

    `warnings.simplefilter("error", MilepostWarning)` makes an error of each.
    """
