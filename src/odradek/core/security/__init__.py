"""Authorization and credentials: the rules. Authentication on a connection is in `wire/` and `server/`."""
