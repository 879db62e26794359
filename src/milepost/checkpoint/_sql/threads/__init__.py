"""Whole threads: registry, locks, leases, copies, removal."""
