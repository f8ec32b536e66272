"""`odradek job skew`: finds hot partitions and keys of a topic over time, and suggests remedies."""
