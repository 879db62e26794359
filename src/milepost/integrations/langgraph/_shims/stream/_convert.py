"""Needed by programs that test transformers of their own."""

from milepost.stream._convert import convert_to_protocol_event

__all__ = ["convert_to_protocol_event"]
