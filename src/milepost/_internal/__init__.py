"""Tools without a subject of their own: generators, threads, asyncio, lazy values, ids."""
