"""Partitions on disk, in Kafka's files: segments and indexes, producers and epochs, recovery, retention, compaction."""
