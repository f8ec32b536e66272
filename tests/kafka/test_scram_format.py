"""SCRAM credentials with which a cluster starts: Odradek and Apache Kafka write the same records and read each other's."""

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
        node.directory.mkdir(parents=True, exist_ok=True)
        node.format()
    yield by_kafka, by_odradek


def credentials(node: NodeProcess) -> list[UserScramCredentialRecord]:
    records = decode_snapshot((node.directory / "data" / "bootstrap.checkpoint").read_bytes()).records
    return [record for record in records if isinstance(record, UserScramCredentialRecord)]
