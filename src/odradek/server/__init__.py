"""The sockets of brokers and controllers: listeners, connections, limits, dispatch, and links to other nodes."""
