"""Logs on disk, and the partitions that write them."""
