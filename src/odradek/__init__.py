"""Odradek: Apache Kafka's cluster, in Python."""

__version__ = "0.1.0"
