"""The SQL engine that savers and stores share: operations, migrations, drivers in both colours."""
