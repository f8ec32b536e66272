"""Benchmarks of Odradek and Apache Kafka on the same computer, with the same clients, in the same run: `make bench`."""
