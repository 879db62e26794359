"""The SQL engine that savers and stores share: operations, migrations, sync and async drivers."""
