"""What every store does: records, namespaces, filters, batches, expiry."""
