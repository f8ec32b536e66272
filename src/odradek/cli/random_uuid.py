"""`odradek random-uuid`: an id for a new cluster, in the form that Kafka writes them."""

from odradek.local.node_format import random_cluster_id


def command() -> None:
    """Print a random id for a new cluster, as `kafka-storage random-uuid` does."""
    print(random_cluster_id())
