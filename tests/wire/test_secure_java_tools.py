"""Kafka's own tools with the `client.properties` of a secure cluster, unchanged."""

from pathlib import Path

from odradek.testing import Cluster
from tests.kafka.apache_kafka import KafkaTools


def test_kafkas_tools_use_client_properties_unchanged(apache_kafka_libs: Path) -> None:
    with Cluster(1, secure=True) as cluster:
        tools = KafkaTools(apache_kafka_libs, cluster.bootstrap_servers)
        file = ("--command-config", str(cluster.client_properties))
        tools.topics("--create", "--topic", "java", "--partitions", "2", *file)
        tools.console_producer("--topic", "java", *file, lines=["one", "two"])
        read = tools.console_consumer(
            "--topic", "java", "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000", *file
        )
        assert {"one", "two"} <= set(read.splitlines())
