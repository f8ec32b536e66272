"""Logs on disk, and the partition that writes each of them."""
