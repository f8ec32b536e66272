"""A small blocking client for the command line and for tests: it speaks the wire, and knows nothing of a node."""
