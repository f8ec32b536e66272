"""Apache Kafka's validator and Odradek's return the same results for the same batches and topic configs."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import BatchHeader, pack_header, parse_batches, parse_header, patch_offset_and_epoch
from odradek.records.builder import build_batch
from odradek.records.compression import Compression, compress
from odradek.records.decode import decode_batch, records_payload
from odradek.records.record import InvalidRecords, Record
from odradek.records.validate import must_walk, validate
from tests.kafka.java_program import JavaProgram

NOW_MS = 1_700_000_000_000
LONG_MAX = 2**63 - 1
CASES = 1500


@pytest.fixture(scope="module")
def kafkas_validator(apache_kafka_libs: Path) -> Iterator[JavaProgram]:
    with JavaProgram(apache_kafka_libs, "ValidateBatch") as program:
        yield program


class Case:
    """A batch, possibly corrupted, and the configs of its topic."""

    def __init__(self, rng: random.Random) -> None:
        self.compacted = rng.random() < 0.5
        self.append_time = rng.random() < 0.3
        self.before_ms = rng.choice([LONG_MAX, 1000, 0])
        self.after_ms = rng.choice([3_600_000, 7_200_000, 0])
        self.compression = rng.choice(["producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
        self.data = _corrupt(_random_batch(rng), rng)

    @property
    def request(self) -> tuple[object, ...]:
        flags = [str(flag).lower() for flag in (self.compacted, self.append_time)]
        return (self.data.hex(), *flags, self.before_ms, self.after_ms, self.compression, NOW_MS)

    @property
    def config(self) -> TopicConfig:
        return TopicConfig.resolve(
            {
                "cleanup.policy": "compact" if self.compacted else "delete",
                "message.timestamp.type": "LogAppendTime" if self.append_time else "CreateTime",
                "message.timestamp.before.max.ms": str(self.before_ms),
                "message.timestamp.after.max.ms": str(self.after_ms),
                "compression.type": self.compression,
            }
        )


def _random_batch(rng: random.Random) -> bytes:
    times = [-1, NOW_MS, NOW_MS - 5, NOW_MS + 10, NOW_MS - 100_000, NOW_MS + 10**7]
    records = [
        Record(
            rng.choice([None, b"", b"key" * 30]) if rng.random() < 0.1 else b"k%d" % number,
            rng.choice([None, b"", b"v" * rng.randrange(300)]),
            rng.choice(times) if rng.random() < 0.1 else NOW_MS - number,
            tuple((f"h{index}", rng.choice([None, b"x"])) for index in range(rng.randrange(3))),
        )
        for number in range(rng.randrange(1, 8))
    ]
    producer = {}
    if rng.random() < 0.2:
        producer = {"producer_id": 5, "producer_epoch": 1, "base_sequence": rng.choice([-1, 0, 7])}
    return build_batch(
        records,
        compression=rng.choice(list(Compression)),
        is_transactional=bool(producer) and rng.random() < 0.5,
        **producer,
    )


def _corrupt(data: bytes, rng: random.Random) -> bytes:
    header = parse_header(data)
    payload = bytearray(records_payload(data, header))
    match rng.choices(["nothing", "cut", "longer", "counts", "flags", "noise"], [60, 8, 8, 8, 8, 8])[0]:
        case "cut":
            del payload[rng.randrange(len(payload)) :]
        case "longer":
            payload += bytes(rng.randrange(1, 4))
        case "counts":
            header.record_count = rng.choice([0, -1, 1, 3, 100])
            if rng.random() < 0.5:
                header.last_offset_delta = header.record_count - 1
        case "flags":
            header.attributes |= rng.choice([0x20, 0x40])
        case "noise":
            return _seal(header, rng.randbytes(60)) if header.compression else data
    return _seal(header, compress(header.compression, bytes(payload)))


def _seal(header: BatchHeader, packed: bytes) -> bytes:
    header.batch_length = 49 + len(packed)
    header.crc = crc32c(pack_header(header)[21:] + packed)
    return pack_header(header) + packed


def _validate_ours(case: Case, *, is_full: bool) -> list[str]:
    buffer = bytearray(case.data)
    partition = TopicPartition("orders", 3)
    try:
        valid = validate(
            buffer, parse_batches(buffer), case.config, now_ms=NOW_MS, partition=partition, is_full=is_full
        )
    except InvalidRecords as refusal:
        if refusal.records:
            records = [f"{index} {reason}" for index, reason in refusal.records]
            return ["REFUSED", refusal.code.name.upper(), refusal.message or "", *records]
        return ["FAILED", refusal.code.name.upper()]
    except KafkaError as error:
        return ["FAILED", error.code.name.upper()]
    return ["OK", bytes(valid.data).hex()]


def _meaning(result: list[str], *, is_recompressed: bool) -> object:
    """Compressed bytes may differ between codec implementations; then compare the header fields and the records."""
    if result[0] != "OK":
        return result
    data = bytearray.fromhex(result[1])
    header = parse_header(data)
    patch_offset_and_epoch(data, header, 0, -1)
    if not is_recompressed:
        return bytes(data)
    fields = (header.attributes, header.max_timestamp, header.producer_id, header.producer_epoch, header.base_sequence)
    return fields, header.last_offset_delta, decode_batch(data, header)


@pytest.mark.parametrize("is_full", [False, True], ids=["header", "full"])
def test_batch_validation_equals_kafkas(kafkas_validator: JavaProgram, is_full: bool) -> None:
    rng = random.Random(7)
    outcomes = {"OK": 0, "REFUSED": 0, "FAILED": 0}
    for number in range(CASES):
        case = Case(rng)
        (line,) = kafkas_validator.request(*case.request)
        expected = [word for word in line.split("\t") if word]
        mine = _validate_ours(case, is_full=is_full)
        if not must_walk(parse_header(case.data), case.config, NOW_MS, is_full=is_full) and expected[0] != "OK":
            # With record.validation=header, Odradek does not inspect the records of such a batch.
            continue
        codec = parse_header(case.data).compression
        is_recompressed = case.compression not in ("producer", Compression(codec).name.lower())
        assert _meaning(mine, is_recompressed=is_recompressed) == _meaning(expected, is_recompressed=is_recompressed), (
            f"case {number}: {case.request}"
        )
        outcomes[expected[0]] += 1
    assert min(outcomes.values()) > CASES / 20, outcomes
