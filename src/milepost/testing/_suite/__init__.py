"""The clauses. Importing this fills the table of `clauses.py`, in this order."""

from milepost.testing._suite import (  # noqa: F401, I001 - the order of the suite
    storing,
    reading,
    listing,
    writes,
    threads,
    sync_and_async,
    persistence,
    optional_methods,
    registry,
    delta,
    steps,
    concurrency,
    crashes,
)
