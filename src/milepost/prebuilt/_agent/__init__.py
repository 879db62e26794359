"""The loop of a model and its tools as a graph."""

from milepost.prebuilt import _requirement  # noqa: F401
