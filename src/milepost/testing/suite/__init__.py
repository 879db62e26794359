"""The clauses. Importing this fills the table of `clauses.py`, in this order."""

from milepost.testing.suite import (  # noqa: I001 - the order of the suite
    storing,
    reading,
    listing,
    writes,
    threads,
    colours,
    persistence,
    copies,
    pruning,
    runs,
    registry,
    delta,
    steps,
    concurrency,
    crashes,
)

__all__ = [
    "colours",
    "concurrency",
    "copies",
    "crashes",
    "delta",
    "listing",
    "persistence",
    "pruning",
    "reading",
    "registry",
    "runs",
    "steps",
    "storing",
    "threads",
    "writes",
]
