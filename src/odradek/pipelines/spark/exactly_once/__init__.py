"""Exactly-once writes from Spark: the protocol of `docs/explanation/exactly-once-sink-protocol.md`, without I/O.

Drivers and tasks are generators that yield requests and receive results or exceptions. A crash is a generator that is
not resumed after some yield.
"""
