"""`odradek job rewrite`: a topic into another, with other partitions, other keys, fewer records; then its live tail."""
