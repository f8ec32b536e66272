"""`odradek random-uuid`: an id for a new cluster, in the form that Kafka writes them."""

from uuid import uuid4

from odradek.base.ids import uuid_to_text


def command() -> None:
    """Print a random id for a new cluster, as `kafka-storage random-uuid` does."""
    print(random_cluster_id())


def random_cluster_id() -> str:
    """Never with a dash in front, which a command line would take for an option: Kafka leaves those out too."""
    while (text := uuid_to_text(uuid4())).startswith("-"):
        pass
    return text
