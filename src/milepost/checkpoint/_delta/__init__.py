"""Encoded values, cut into elements, and the differences between their versions."""
