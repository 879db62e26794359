"""Needed by programs that test transformers of their own."""

from milepost.stream._types import convert_to_protocol_event

__all__ = ["convert_to_protocol_event"]
