"""`odradek job skew`: which partitions and keys of a topic are hot, when they were, and what could be done about it."""
