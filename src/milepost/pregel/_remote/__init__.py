"""How RemoteGraph talks to a server: what is sent, what comes back, and who waits."""
