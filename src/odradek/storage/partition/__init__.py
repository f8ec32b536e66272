"""The single writer of one partition: its log, who may read how far, and who is told of changes."""
