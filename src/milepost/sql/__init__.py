"""The SQL engine that savers and stores share: operations, splices, drivers in both colours."""
