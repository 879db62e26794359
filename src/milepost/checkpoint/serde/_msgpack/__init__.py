"""Values to msgpack and back: the fast path, the exact path, and why bytes do not decode."""
