"""One partition's replicas: who is in sync, how far everything is committed, and where logs part. Pure."""
