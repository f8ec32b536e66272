"""What a node answers: one module per API, without state of its own, against ports."""
