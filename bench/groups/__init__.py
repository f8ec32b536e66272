"""Measures what groups cost three brokers, idle and during failures, without Apache Kafka: `make bench-groups`."""
