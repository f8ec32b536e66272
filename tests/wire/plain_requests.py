"""Requests that many tests send on a raw connection, without retries."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch, parse_batches

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
SET, DELETE = 0, 1
LATEST, EARLIEST = -1, -2


class Produced(NamedTuple):
    error: ErrorCode
    offset: int
    message: str | None = None


class Fetched(NamedTuple):
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: bytes

    @property
    def values(self) -> list[bytes]:
        """The value of each batch; every batch has one uncompressed record without key and headers."""
        return [found.body[_value_start(found.body) : -1] for found in parse_batches(self.records)]


def _value_start(body: bytes) -> int:
    """The position after length, attributes, timestamp delta, offset delta, null key and the value's length."""
    position = _skip_varint(body, 0) + 1
    for _ in range(4):
        position = _skip_varint(body, position)
    return position


def _skip_varint(body: bytes, position: int) -> int:
    while body[position] > 0x7F:
        position += 1
    return position + 1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create_topic(
    connection: RawConnection, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> ErrorCode:
    listed = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": listed}
    response = connection.request(Api.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 10_000})
    return ErrorCode(response.topics[0].error_code)


def delete_topic(connection: RawConnection, name: str) -> ErrorCode:
    response = connection.request(Api.DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 10_000})
    return ErrorCode(response.responses[0].error_code)


def produce_fields(topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    partition_data = [{"index": partition, "records": records}]
    return {"acks": acks, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": partition_data}]}


def produce_batch(connection: RawConnection, topic: str, records: bytes, *, partition: int = 0) -> Produced:
    response = connection.request(Api.PRODUCE, 9, produce_fields(topic, records, partition=partition))
    result = response.responses[0].partition_responses[0]
    return Produced(ErrorCode(result.error_code), result.base_offset, result.error_message)


def produce(connection: RawConnection, topic: str, value: bytes, *, partition: int = 0) -> Produced:
    return produce_batch(connection, topic, batch(TestRecord(value), timestamp=now_ms()), partition=partition)


def fetch_fields(
    topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 50 << 20
) -> dict[str, Any]:
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
    }


def as_fetched(response: Any) -> Fetched:
    found = response.responses[0].partitions[0]
    return Fetched(
        ErrorCode(found.error_code), found.high_watermark, found.log_start_offset, bytes(found.records or b"")
    )


def fetch(connection: RawConnection, topic: str, offset: int = 0, **limits: int) -> Fetched:
    return as_fetched(connection.request(Api.FETCH, 12, fetch_fields(topic, offset, **limits)))


def query_offset(connection: RawConnection, topic: str, timestamp: int, *, partition: int = 0) -> Any:
    wanted = {"partition_index": partition, "timestamp": timestamp}
    fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [wanted]}]}
    (found,) = connection.request(Api.LIST_OFFSETS, 7, fields).topics[0].partitions
    return found


def list_offset(connection: RawConnection, topic: str, timestamp: int, *, partition: int = 0) -> int:
    found = query_offset(connection, topic, timestamp, partition=partition)
    assert found.error_code is ErrorCode.none, found
    return int(found.offset)


def alter_configs(
    connection: RawConnection, kind: int, name: str, changes: Mapping[str, str | None]
) -> tuple[ErrorCode, str | None]:
    """Sets configs; a value of None deletes the config."""
    configs = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in changes.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    response = connection.request(Api.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    (result,) = response.responses
    return ErrorCode(result.error_code), result.error_message


def leaders(connection: RawConnection, topic: str) -> dict[int, tuple[ErrorCode, int]]:
    """Error and leader of each partition in a Metadata response."""
    fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    (described,) = connection.request(Api.METADATA, 9, fields).topics
    return {one.partition_index: (ErrorCode(one.error_code), one.leader_id) for one in described.partitions}


def until(happens: Callable[[], bool], within_s: float = 30.0, *, what: str = "") -> None:
    deadline = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < deadline, f"{what or 'it'} did not happen within {within_s} s"
        time.sleep(0.02)


def until_coordinated(connection: RawConnection) -> None:
    """Waits until groups have a coordinator and it has loaded."""

    def is_loaded() -> bool:
        (found,) = connection.request(Api.FIND_COORDINATOR, 6, {"coordinator_keys": ["any"]}).coordinators
        (state,) = connection.request(Api.DESCRIBE_GROUPS, 5, {"groups": ["any"]}).groups
        return found.error_code is ErrorCode.none and state.error_code is ErrorCode.none

    until(is_loaded, 30, what="a coordinator")


def codes(response: Any) -> Counter[ErrorCode]:
    """How often each error code is in a response, wherever it may be."""
    found: Counter[ErrorCode] = Counter()
    if dataclasses.is_dataclass(response):
        for field in dataclasses.fields(response):
            value = getattr(response, field.name)
            if isinstance(value, ErrorCode):
                found[value] += 1
            else:
                found += codes(value)
    elif isinstance(response, tuple):
        for item in response:
            found += codes(item)
    return found


def filled_values(count: int, size: int = 1000) -> Sequence[bytes]:
    """Values that all differ, each `size` bytes long."""
    return [(b"%d-" % number).ljust(size, b".") for number in range(count)]
