"""SCRAM credentials with which a cluster starts: Odradek and Apache Kafka write the same and read each other's."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.core.metadata.records import UserScramCredentialRecord
from odradek.core.metadata.snapshot import decode_snapshot
from tests.kafka.apache_kafka import ApacheKafka, KafkaTools
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.wire.plain_requests import until

pytestmark = pytest.mark.kafka

SALTED = "ZsDuzJIbwXnHKk3ApQCPyGWIOlAwRs0U9Ok32RQqVZM="
ARGUMENTS = (
    "--add-scram", "SCRAM-SHA-256=[name=alice,password=alice-secret,salt=MWx2NHBkbnc0,iterations=8192]",
    "-S", f'SCRAM-SHA-512=[name=bob,salt="MWx2NHBkbnc0",saltedpassword="{SALTED}"]',
    "-S", "SCRAM-SHA-512=[name=alice,password=quoted,salt=bm90IHNvIHJhbmRvbQ]",
)  # fmt: skip


class FormattedByKafka(ApacheKafka):
    def format_command(self) -> list[str]:
        return [*super().format_command(), *ARGUMENTS]


class FormattedByOdradek(OdradekProcess):
    def format_command(self) -> list[str]:
        return [*super().format_command(), *ARGUMENTS]


@pytest.fixture
def nodes(apache_kafka_libs: Path, tmp_path: Path) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Both formatted; the first by Kafka, the second by Odradek."""
    by_kafka = FormattedByKafka(apache_kafka_libs, tmp_path / "kafka")
    by_odradek = FormattedByOdradek(tmp_path / "odradek")
    for node in (by_kafka, by_odradek):
        node.prepare()
    yield by_kafka, by_odradek


def credentials(node: NodeProcess) -> list[UserScramCredentialRecord]:
    records = decode_snapshot((node.directory / "data" / "bootstrap.checkpoint").read_bytes()).records
    return [record for record in records if isinstance(record, UserScramCredentialRecord)]


def described(libs: Path, node: NodeProcess) -> str:
    """Users as Kafka's tool shows them."""
    return KafkaTools(libs, node.bootstrap).configs("--describe", "--entity-type", "users")


def test_each_reads_the_credentials_that_the_other_has_written(
    apache_kafka_libs: Path, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    by_kafka, by_odradek = nodes
    assert len(credentials(by_kafka)) == 3
    assert credentials(by_odradek) == credentials(by_kafka)

    odradek = OdradekProcess(by_kafka.directory)
    kafka = ApacheKafka(apache_kafka_libs, by_odradek.directory)
    for node in (odradek, kafka):
        try:
            node.start()
            until(
                lambda node=node: {"alice", "bob"} <= users(described(apache_kafka_libs, node)),  # type: ignore[misc]
                what=f"users of {node.name}",
            )
            shown = described(apache_kafka_libs, node)
            assert re.search("user-principal 'alice' are .*SCRAM-SHA-256=iterations=8192", shown)
            assert re.search("user-principal 'alice' are .*SCRAM-SHA-512=iterations=4096", shown)
            assert re.search("user-principal 'bob' are SCRAM-SHA-512=iterations=4096", shown)
        finally:
            node.kill()


def users(shown: str) -> set[str]:
    return set(re.findall("user-principal '([^']*)'", shown))
