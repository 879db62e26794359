"""What a saver and a store on Redis or Valkey share: clients, commands, scripts, errors."""
