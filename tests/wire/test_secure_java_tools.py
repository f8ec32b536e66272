"""Kafka's own tools with the files of a secure cluster, unchanged: `client.properties`, and certificates as PEM."""

import re
from pathlib import Path

from odradek.cli.main import run
from odradek.local.security_files import SecurityFiles
from odradek.testing import Cluster
from tests.kafka.apache_kafka import KafkaTools, ToolFailed


def test_kafkas_tools_use_client_properties_unchanged(apache_kafka_libs: Path) -> None:
    with Cluster(1, secure=True) as cluster:
        tools = KafkaTools(apache_kafka_libs, cluster.bootstrap_servers)
        file = ("--command-config", str(cluster.client_properties))
        tools.console_producer("--topic", "java", *file, lines=["one", "two"])
        read = tools.console_consumer(
            "--topic", "java", "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000", *file
        )
        assert {"one", "two"} <= set(read.splitlines())
        check_certificates(cluster, apache_kafka_libs)


def check_certificates(cluster: Cluster, libs: Path) -> None:
    """The certificate of `odradek cert issue` is a login for Java; its principal may do nothing without an ACL."""
    files = SecurityFiles(cluster.client_properties.parent)
    assert run(["cert", "issue", "ann", "--ca", str(files.authority), "--directory", str(files.directory)]) == 0
    file = files.directory / "ssl.properties"
    file.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={files.directory / 'ann.pem'}\nssl.truststore.location={files.authority}\n"
    )
    properties = (files.client_properties.parent / "node-1" / "server.properties").read_text()
    address = re.search(r"BROKER://([\d.:]+)", properties)
    assert address is not None
    tools = KafkaTools(libs, address[1])
    try:
        output = tools.features("--command-config", str(file), "upgrade", "--release-version", "4.3")
    except ToolFailed as failed:
        output = str(failed)
    assert "Request UpdateFeatures needs ALTER permission" in output
