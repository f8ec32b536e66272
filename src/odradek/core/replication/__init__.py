"""Replication of one partition: leader, follower, ISR, high watermark and truncation, as state machines without I/O."""
