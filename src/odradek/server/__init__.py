"""The only sockets of a node."""
