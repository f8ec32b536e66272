"""Client quotas as operators and clients see them: limits, throttled clients, and refused topics."""

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.kafka.apache_kafka import KafkaTools, ToolFailed
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import create_topic


def test_kafka_configs_sets_describes_and_removes_quotas(tools: KafkaTools) -> None:
    of_user = ("--entity-type", "users", "--entity-name", "alice")
    of_client = ("--entity-type", "clients", "--entity-name", "reports")
    of_default_ip = ("--entity-type", "ips", "--entity-default")
    tools.configs("--alter", *of_client, "--add-config", "producer_byte_rate=1048576,request_percentage=12.5")
    tools.configs("--alter", *of_user, *of_client, "--add-config", "consumer_byte_rate=2048")
    tools.configs("--alter", *of_default_ip, "--add-config", "connection_creation_rate=10000")
    described = tools.configs("--describe", *of_client)
    assert "Quota configs for client-id 'reports' are" in described
    assert "producer_byte_rate=1048576.0" in described
    assert "request_percentage=12.5" in described
    assert "consumer_byte_rate" not in described
    assert "consumer_byte_rate=2048.0" in tools.configs("--describe", *of_user, *of_client)
    assert "connection_creation_rate=10000.0" in tools.configs("--describe", *of_default_ip)
    with pytest.raises(ToolFailed, match="InvalidRequestException: Quota producer_byte_rate must be greater than 0"):
        tools.configs("--alter", *of_client, "--add-config", "producer_byte_rate=0")
    tools.configs("--alter", *of_client, "--delete-config", "producer_byte_rate,request_percentage")
    tools.configs("--alter", *of_user, *of_client, "--delete-config", "consumer_byte_rate")
    tools.configs("--alter", *of_default_ip, "--delete-config", "connection_creation_rate")
    assert "producer_byte_rate" not in tools.configs("--describe", *of_client)


LIMIT_BYTES = 200_000
RECORD_BYTES = 5_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    """A client that was idle may send for one second without a delay, instead of ten."""
    node = OdradekProcess(tmp_path_factory.mktemp("quotas"), properties={"quota.window.num": "2"}).start()
    yield node
    node.kill()


@pytest.fixture
def connection(node: OdradekProcess) -> Iterator[RawConnection]:
    with RawConnection(node.port) as connection:
        yield connection


def set_quota(connection: RawConnection, key: str, value: float | None, **entity: str | None) -> None:
    """Also waits until the broker has applied it."""
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    changes = [{"key": key, "value": value or 0.0, "remove": value is None}]
    fields = {"entries": [{"entity": parts, "ops": changes}], "validate_only": False}
    (entry,) = connection.request(Api.ALTER_CLIENT_QUOTAS, 1, fields).entries
    assert entry.error_code is ErrorCode.none, entry.error_message
    time.sleep(0.1)


def test_producer_is_throttled_to_its_byte_rate(node: OdradekProcess, connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    set_quota(connection, "producer_byte_rate", LIMIT_BYTES, client_id="writer")
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "writer", "batch.size": 4 * RECORD_BYTES})
    delivered: list[float] = []
    began = time.monotonic()
    for _ in range(4 * LIMIT_BYTES // RECORD_BYTES):
        producer.produce(topic, os.urandom(RECORD_BYTES), on_delivery=lambda *_: delivered.append(time.monotonic()))
    producer.flush(20)
    rate = [one for one in delivered if one - began >= 1]
    assert len(delivered) == 4 * LIMIT_BYTES // RECORD_BYTES
    seconds = delivered[-1] - rate[0]
    assert len(rate) * RECORD_BYTES / seconds == pytest.approx(LIMIT_BYTES, rel=0.2)
