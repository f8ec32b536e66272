"""The `odradek` command: an ordinary client of the cluster, and the starter of its processes."""
