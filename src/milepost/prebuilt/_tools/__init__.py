"""Tools that models call: what they are given, how they run, what becomes of their results."""

from milepost.prebuilt import _requirement  # noqa: F401
