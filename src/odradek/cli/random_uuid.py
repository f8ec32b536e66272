"""`odradek random-uuid`: generate a cluster ID in Kafka's format."""

from odradek.local.node_format import random_cluster_id


def command() -> None:
    """Print a random ID for a new cluster, as `kafka-storage random-uuid` does."""
    print(random_cluster_id())
