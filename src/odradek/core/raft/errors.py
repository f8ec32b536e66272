"""The error that stops a replica."""


class BrokenQuorum(Exception):
    """A guarantee of consensus is violated: two leaders in one epoch, a truncation of committed records, a gap in the
    log. Continuing could lose acknowledged records, so the node must stop."""
