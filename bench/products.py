"""The measured products, Apache Kafka and Odradek, and clusters of three combined nodes of either."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.cluster.real_cluster import KafkaMember, OdradekMember, RealCluster, real_cluster, roles_of
from tests.components import ComponentMissing
from tests.kafka.apache_kafka import PRODUCTION_BROKER_FLAGS, kafka_libs

KAFKA, ODRADEK = "kafka", "odradek"
PRODUCTS = (KAFKA, ODRADEK)
"""In order of measurement."""
TITLES = {KAFKA: "Apache Kafka", ODRADEK: "Odradek"}
NODES = (1, 2, 3)


def wide_console(columns: int = 110) -> Console:
    """Wide enough for the tables, also if the output goes to a file."""
    return Console(width=max(Console().width, columns))


def find_kafka(console: Console) -> Path | None:
    """The directory of Kafka's libraries; None, with a message, if they are missing."""
    try:
        return kafka_libs()
    except ComponentMissing as problem:
        console.print(f"The benchmark needs Apache Kafka: {problem}")
        return None


@contextmanager
def data_directory(product: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"bench-{product}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def cluster_of_three(product: str, libs: Path, properties: Mapping[str, str] | None = None) -> Iterator[RealCluster]:
    """A running cluster on new data directories, removed afterwards."""
    with running_cluster(product, libs, roles_of(combined=NODES), properties) as cluster:
        yield cluster


@contextmanager
def running_cluster(
    product: str, libs: Path, roles: Mapping[int, Sequence[str]], properties: Mapping[str, str] | None = None
) -> Iterator[RealCluster]:
    new_member: Any = partial(KafkaMember, libs, flags=PRODUCTION_BROKER_FLAGS) if product == KAFKA else OdradekMember
    with (
        data_directory(product) as directory,
        real_cluster(directory, roles, new_member=new_member, properties=properties) as cluster,
    ):
        yield cluster
