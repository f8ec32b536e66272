"""What a replica cannot go on from."""


class BrokenQuorum(Exception):
    """Somebody has broken a promise that consensus stands on: two leaders of one epoch, committed records to be cut
    off, a log that does not continue. Going on could lose what was acknowledged, so the node has to end."""
