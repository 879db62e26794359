"""A type that the tests do not import by name, so that nothing allows it by itself."""

from dataclasses import dataclass


@dataclass
class Hidden:
    n: int
