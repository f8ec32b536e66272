"""CoordinatorRuntime at work: machines without I/O, each driven by a host beside the leader of its partition."""
