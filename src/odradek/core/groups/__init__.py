"""The group coordinator: committed offsets and the groups that commit them, on a partition of `__consumer_offsets`."""
