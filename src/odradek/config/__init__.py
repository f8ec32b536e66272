"""Configs: what Kafka defines, what a file says, what changed at run time, and which value is in force."""
