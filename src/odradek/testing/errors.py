"""What a cluster under test says when it cannot do as it is told."""


class ClusterError(Exception):
    """The cluster is not, or does not become, what was asked for; the message says what is missing."""
