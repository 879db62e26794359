"""The store on Redis and Valkey: keys, reads, writes, vectors, upkeep."""
