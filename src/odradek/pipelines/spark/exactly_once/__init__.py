"""Exactly-once writes from Spark: the protocol of `docs/explanation/exactly-once-sink-protocol.md`, without I/O.

Drivers and tasks are generators: they yield requests and are sent the answers, or have failures thrown into them.
Whoever runs them may stop at any yield, which is what a crash is.
"""
