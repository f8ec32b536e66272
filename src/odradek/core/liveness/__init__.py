"""Detecting dead processes: the rules. The sockets are in `node/`. See docs/explanation/failure-detection.md."""
