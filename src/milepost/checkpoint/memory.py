"""A saver that keeps threads in this process: for tests, demos and short-lived programs.

It keeps to the same rules as the savers on disk. Values are stored as bytes, so nothing that a
program does to its objects later changes what was saved; versions of a value share their bytes;
writers are fenced; threads are listed, pruned and erased in the same way.
"""

from milepost.checkpoint._memory.saver import InMemorySaver, MemorySaver

__all__ = ["InMemorySaver", "MemorySaver"]
