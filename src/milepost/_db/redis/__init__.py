"""What savers, stores and caches on Redis or Valkey share: clients, commands, scripts, errors."""
