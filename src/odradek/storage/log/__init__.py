"""Partition logs in Kafka's file formats: segments, indexes, producer state, epochs, recovery, retention,
compaction."""
