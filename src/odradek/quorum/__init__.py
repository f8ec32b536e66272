"""A node as one replica of the metadata log: the hosts of consensus and of the controller."""
