"""Requests for a fuzzer: a corpus of valid requests of every API and version, and seeded damage."""

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tests.apis import Api, versions
from tests.raw_wire import encode_request
from tests.record_batches import GZIP, LZ4, SNAPPY, ZSTD, TestRecord, batch

TOPIC = "fuzzed"
INTERESTING = [
    value.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for value in (0, 1, -1, -2, 127, 2 ** (size * 8 - 1) - 1, -(2 ** (size * 8 - 1)))
] + [b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x80" * 5]
_MUTATIONS_MAX = 4


def corpus() -> list[bytes]:
    """Valid requests without the length prefix. Changes are validate-only, so that damaged requests change nothing."""
    return [
        encode_request(api, version, 1, fields)[4:]
        for api in Api
        for version in versions(api)
        for fields in _examples(api)
    ]


def _examples(api: Api) -> Iterator[dict[str, Any]]:
    partition = {"partition_index": 0, "partition": 0, "timestamp": -1, "offset": 1, "leader_epoch": 0}
    resource = {
        "resource_type": 2,
        "resource_name": TOPIC,
        "configs": [{"name": "retention.ms", "value": "1000", "config_operation": 0}],
    }
    match api:
        case Api.PRODUCE:
            for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
                data = batch(*[TestRecord(b"v" * 50, key=b"k", headers=[(b"h", b"x")])] * 5, codec=codec)
                yield _produce(data)
            # A timestamp out of range makes the broker validate the records.
            yield _produce(batch(TestRecord(), timestamp=99_999_999_999_999))
        case Api.FETCH:
            wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            for session_epoch in (-1, 0):
                yield {
                    "max_wait": 1,
                    "max_bytes": 1 << 20,
                    "session_epoch": session_epoch,
                    "topics": [{"topic": TOPIC, "partitions": [wanted]}],
                    "forgotten_topics_data": [{"topic": TOPIC, "partitions": [1]}],
                }
        case Api.LIST_OFFSETS | Api.DELETE_RECORDS:
            yield {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [partition] * 2}], "timeout": 100}
        case Api.OFFSET_FOR_LEADER_EPOCH:
            yield {"topics": [{"topic": TOPIC, "partitions": [partition]}]}
        case Api.METADATA:
            yield {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
        case Api.API_VERSIONS:
            yield {"client_software_name": "fuzzer", "client_software_version": "1"}
        case Api.CREATE_TOPICS:
            configs = [{"name": "retention.ms", "value": "1000"}]
            assignments = [{"partition_index": 0, "broker_ids": [1]}]
            for assigned in ([], assignments):
                count = -1 if assigned else 1
                new = {"name": "new", "num_partitions": count, "replication_factor": count, "configs": configs}
                yield {"topics": [{**new, "assignments": assigned}], "timeout": 100, "validate_only": True}
        case Api.DELETE_TOPICS:
            yield {"topic_names": ["not-there"], "topics": [{"name": "not-there"}], "timeout": 100}
        case Api.CREATE_PARTITIONS:
            grown = {"name": TOPIC, "count": 2, "assignments": [{"broker_ids": [1]}]}
            yield {"topics": [grown], "timeout": 100, "validate_only": True}
        case Api.INIT_PRODUCER_ID:
            yield {"transaction_timeout": 1000}
        case Api.DESCRIBE_CONFIGS:
            yield {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}]}
        case Api.ALTER_CONFIGS | Api.INCREMENTAL_ALTER_CONFIGS:
            yield {"resources": [resource], "validate_only": True}
        case Api.ALTER_REPLICA_LOG_DIRS:
            yield {"dirs": [{"path": "/no/such/dir", "topics": [{"name": TOPIC, "partitions": [0]}]}]}
        case Api.DESCRIBE_LOG_DIRS:
            yield {"topics": [{"topic": TOPIC, "partitions": [0]}]}
        case Api.UPDATE_FEATURES:
            update = {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1}
            yield {"feature_updates": [update], "validate_only": True, "timeout": 100}
        case Api.DESCRIBE_PRODUCERS:
            yield {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        case Api.DESCRIBE_TOPIC_PARTITIONS:
            yield {"topics": [{"name": TOPIC}], "cursor": {"topic_name": TOPIC, "partition_index": 0}}
        case Api.DESCRIBE_CLUSTER | Api.LIST_CONFIG_RESOURCES:
            yield {}


def _produce(data: bytes) -> dict[str, Any]:
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": data}]}
    return {"acks": -1, "timeout": 100, "topic_data": [topic]}


class Mutator:
    """Damages requests; the same seed damages them in the same way."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._corpus = corpus()

    def next_frame(self) -> bytes:
        """A damaged request with a length prefix that is nearly always correct."""
        chance = self._chance
        data = bytearray(chance.choice(self._corpus))
        for _ in range(chance.randint(1, _MUTATIONS_MAX)):
            damage(chance, data, self._corpus)
        length = len(data)
        if chance.random() < 0.01:
            length = chance.choice((0, -1, 1, length + 1, length * 2, 1 << 20, 104_857_600, 2**31 - 1))
        return struct.pack(">i", length) + data


def damage(chance: random.Random, data: bytearray, corpus: Sequence[bytes]) -> None:
    """Damages the data in one place; its end may come from an element of the corpus."""
    where = chance.randrange(len(data) + 1)
    match chance.randrange(9):
        case 0 if data:
            data[where % len(data)] ^= 1 << chance.randrange(8)
        case 1 if data:
            data[where % len(data)] = chance.randrange(256)
        case 2 | 3:
            value = chance.choice(INTERESTING)
            data[where : where + len(value)] = value
        case 4:
            del data[where:]
        case 5:
            data[where:where] = chance.randbytes(chance.randint(1, 16))
        case 6:
            data[where:where] = data[where : where + chance.randint(1, 64)]
        case 7:
            del data[where : where + chance.randint(1, 16)]
        case _:
            other = chance.choice(corpus)
            data[where:] = other[min(where, len(other)) :]
