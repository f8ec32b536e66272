"""`record.validation=full`: records that are not those of their header are rejected, from the next batch on."""

import struct
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.cluster.real_cluster import wait_for
from tests.node_process import KEEPS_OLD_RECORDS
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.record_batches import CODEC_NAMES, TestRecord, batch, compress, encode_record

NAME = "record.validation"
BROKER, SET, DELETE = 4, 0, 1
TOPIC = "validated"
# Larger batches are validated in a thread.
MANY = 3000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path_factory.mktemp("validation"), properties=KEEPS_OLD_RECORDS)
    try:
        node.start()
        new = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        with RawConnection(node.port) as connection:
            connection.request(Api.CREATE_TOPICS, 5, {"topics": [new], "timeout": 10_000})
        yield node
    finally:
        node.remove()


@pytest.fixture
def connection(node: OdradekProcess) -> Iterator[RawConnection]:
    with RawConnection(node.port) as one:
        yield one


def change(connection: RawConnection, operation: int, value: str | None = None, broker: str = "") -> ErrorCode:
    configs = [{"name": NAME, "config_operation": operation, "value": value}]
    resource = {"resource_type": BROKER, "resource_name": broker, "configs": configs}
    response = connection.request(Api.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
    code: ErrorCode = response.responses[0].error_code
    return code


def produce(connection: RawConnection, data: bytes) -> ErrorCode:
    partition = {"index": 0, "records": data}
    fields = {"acks": -1, "timeout": 10_000, "topic_data": [{"name": TOPIC, "partition_data": [partition]}]}
    code: ErrorCode = connection.request(Api.PRODUCE, 9, fields).responses[0].partition_responses[0].error_code
    return code


def shortened(codec: int, count: int) -> bytes:
    """A batch whose last record is missing."""
    records = [TestRecord(struct.pack(">q", number)) for number in range(count)]
    body = b"".join(encode_record(record, delta) for delta, record in enumerate(records[:-1]))
    return batch(*records, codec=codec, body=compress(codec, body))


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("count", [2, MANY])
def test_validation_can_change_at_run_time(connection: RawConnection, codec: int, count: int) -> None:
    broken, valid = shortened(codec, count), batch(*[TestRecord()] * count, codec=codec)
    assert produce(connection, broken) is ErrorCode.none
    assert change(connection, SET, "full") is ErrorCode.none
    wait_for("full validation", lambda: produce(connection, broken) is ErrorCode.invalid_record)
    assert produce(connection, valid) is ErrorCode.none
    assert change(connection, DELETE) is ErrorCode.none
    wait_for("validation of the header", lambda: produce(connection, broken) is ErrorCode.none)


def test_validation_can_change_for_one_broker(connection: RawConnection) -> None:
    broken = shortened(0, 2)
    assert change(connection, SET, "full", broker="1") is ErrorCode.none
    wait_for("full validation", lambda: produce(connection, broken) is ErrorCode.invalid_record)
    assert change(connection, DELETE, broker="1") is ErrorCode.none
    wait_for("validation of the header", lambda: produce(connection, broken) is ErrorCode.none)


def test_other_values_are_rejected(connection: RawConnection) -> None:
    assert change(connection, SET, "records") is ErrorCode.invalid_request
