"""The error of clusters under test."""


class ClusterError(Exception):
    """The cluster did not reach the requested state. The message states the reason."""
