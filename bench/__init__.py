"""Odradek measured beside Apache Kafka: same machine, same clients, same run. `make bench`."""
