"""`odradek job rewrite`: copies a topic to another with other partitions, other keys or fewer records."""
