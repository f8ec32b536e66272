"""Configs: Kafka's definitions, parsing and validation of files, dynamic changes, and effective values."""
