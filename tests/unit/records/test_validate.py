"""Validation of a producer's batch against a topic's configs."""

from collections.abc import Callable
from functools import partial

import pytest
from crc32c import crc32c

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.config.topic_config import TopicConfig
from odradek.records.batch import HEADER_SIZE, BatchHeader, check_crc, pack_header, parse_batches
from odradek.records.builder import build_batch
from odradek.records.compression import Compression, DecompressionTooLarge, compress
from odradek.records.decode import decode_batch
from odradek.records.record import InvalidRecords, Record
from odradek.records.validate import Validated, must_walk, validate
from odradek.records.walk import INTERPRETED_WALK, Walk, compiled_walk

NOW = 1_700_000_000_000
PARTITION = TopicPartition("orders", 3)
RECORDS = [Record(b"k%d" % i, b"value", NOW - 10 + i) for i in range(5)]
DEFAULTS = TopicConfig.resolve()


def topic(**configs: object) -> TopicConfig:
    return TopicConfig.resolve({name.replace("_", "."): str(value) for name, value in configs.items()})


@pytest.fixture(params=["interpreted", pytest.param("compiled", marks=pytest.mark.needs("numba"))])
def run(request: pytest.FixtureRequest) -> Callable[..., Validated]:
    walk: Walk | None = INTERPRETED_WALK
    if request.param == "compiled":
        walk = compiled_walk()

    def run(data: bytes, config: TopicConfig = DEFAULTS, is_full: bool = False) -> Validated:
        assert walk is not None
        buffer = bytearray(data)
        valid = validate(
            buffer, parse_batches(buffer), config, now_ms=NOW, partition=PARTITION, walk=walk, is_full=is_full
        )
        assert parse_batches(valid.data) == valid.batches
        check_crc(valid.data, valid.batches[0])
        return valid

    return run


def refusal(run: Callable[..., Validated], data: bytes, config: TopicConfig = DEFAULTS) -> KafkaError:
    with pytest.raises(KafkaError) as raised:
        run(data, config)
    return raised.value


def edited(data: bytes, **fields: int) -> bytes:
    """The batch with other values in its header."""
    (header,) = parse_batches(data)
    for name, value in fields.items():
        setattr(header, name, value)
    return sealed(header, data[HEADER_SIZE:])


def sealed(header: BatchHeader, packed: bytes) -> bytes:
    """The given header and records with a valid CRC."""
    header.batch_length = HEADER_SIZE - 12 + len(packed)
    header.crc = crc32c(pack_header(header)[21:] + packed)
    return pack_header(header) + packed


class TestPlainTopics:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_valid_batch_is_unchanged(self, run: Callable[..., Validated], codec: Compression) -> None:
        data = build_batch(RECORDS, compression=codec)
        assert not must_walk(parse_batches(data)[0], DEFAULTS, NOW)
        assert bytes(run(data).data) == data

    def test_crc_is_checked_before_the_record_count(self, run: Callable[..., Validated]) -> None:
        data = bytearray(build_batch(RECORDS))
        data[60] ^= 1
        assert refusal(run, data).code is ErrorCode.corrupt_message

    def test_size_limit_is_checked_before_the_crc(self, run: Callable[..., Validated]) -> None:
        data = bytearray(build_batch(RECORDS))
        data[60] ^= 1
        error = refusal(run, data, topic(max_message_bytes=len(data) - 1))
        assert error.code is ErrorCode.message_too_large

    @pytest.mark.parametrize(
        "fields",
        [
            {"base_offset": 1},
            {"last_offset_delta": -1, "record_count": 0},
            {"last_offset_delta": -(2**31)},
            {"record_count": 0},
            {"record_count": -1},
            {"record_count": 6},
            {"last_offset_delta": 3},
            {"attributes": 0x20},
            {"producer_id": 9, "producer_epoch": 0, "base_sequence": -1},
        ],
        ids=str,
    )
    def test_headers_that_kafka_rejects(self, run: Callable[..., Validated], fields: dict[str, int]) -> None:
        error = refusal(run, edited(build_batch(RECORDS), **fields))
        assert error.code is ErrorCode.invalid_record
        assert isinstance(error, InvalidRecords) and error.records == ()

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_unknown_codecs(self, run: Callable[..., Validated], codec: int) -> None:
        assert refusal(run, edited(build_batch(RECORDS), attributes=codec)).code is ErrorCode.unknown_server_error

    def test_log_append_time_of_a_producer_is_patched(self, run: Callable[..., Validated]) -> None:
        valid = run(build_batch(RECORDS, append_time_ms=NOW - 7))
        assert not valid.batches[0].timestamp_type_is_append
        assert valid.batches[0].max_timestamp == NOW - 7
        error = refusal(run, build_batch(RECORDS, append_time_ms=-1))
        assert error.code is ErrorCode.invalid_timestamp


class TestFullValidation:
    """Every record is read, whatever the topic's configs, as in Kafka."""

    @pytest.fixture
    def run(self, run: Callable[..., Validated]) -> Callable[..., Validated]:
        return partial(run, is_full=True)

    @pytest.mark.parametrize("codec", list(Compression))
    def test_valid_batch_is_unchanged(self, run: Callable[..., Validated], codec: Compression) -> None:
        data = build_batch(RECORDS, compression=codec)
        assert must_walk(parse_batches(data)[0], DEFAULTS, NOW, is_full=True)
        assert bytes(run(data).data) == data

    @pytest.mark.parametrize("codec", list(Compression))
    def test_records_that_are_not_those_of_the_header_are_rejected(
        self, run: Callable[..., Validated], codec: Compression
    ) -> None:
        data = build_batch(RECORDS)
        payload = data[HEADER_SIZE:]
        (header,) = parse_batches(build_batch(RECORDS, compression=codec))
        for records in (payload[:-1], payload + b"\0", payload[: len(payload) // 5], b"\x01" + payload[1:]):
            assert refusal(run, sealed(header, compress(codec, records))).code is ErrorCode.invalid_record

    def test_offset_deltas_out_of_order_are_rejected(self, run: Callable[..., Validated]) -> None:
        one, other = build_batch(RECORDS[:1])[HEADER_SIZE:], build_batch(RECORDS[:2])
        assert refusal(run, sealed(parse_batches(other)[0], one + one)).code is ErrorCode.invalid_record

    def test_header_with_a_wrong_max_timestamp_is_patched(self, run: Callable[..., Validated]) -> None:
        wrong = edited(build_batch(RECORDS), max_timestamp=NOW - 500)
        assert run(wrong).batches[0].max_timestamp == NOW - 6

    @pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
    def test_undecodable_compressed_data_is_rejected(self, run: Callable[..., Validated], codec: Compression) -> None:
        (header,) = parse_batches(build_batch(RECORDS, compression=codec))
        assert refusal(run, sealed(header, b"\x99" * 40)).code is ErrorCode.unknown_server_error

    def test_decompression_bomb_gets_message_too_large(self, run: Callable[..., Validated]) -> None:
        bomb = build_batch([Record(b"k", bytes(1 << 20), NOW)] * 140, compression=Compression.ZSTD)
        assert isinstance(refusal(run, bomb), DecompressionTooLarge)

    def test_log_append_time_stays(self, run: Callable[..., Validated]) -> None:
        valid = run(build_batch(RECORDS), topic(message_timestamp_type="LogAppendTime"))
        assert (valid.batches[0].timestamp_type_is_append, valid.batches[0].max_timestamp) == (True, NOW)


class TestTimestamps:
    def test_default_timestamp_bound_is_one_hour_ahead(self, run: Callable[..., Validated]) -> None:
        records = [*RECORDS, Record(b"late", b"", NOW + 3_600_000)]
        assert not must_walk(parse_batches(build_batch(records))[0], DEFAULTS, NOW)
        run(build_batch(records))
        records[2] = records[2]._replace(timestamp=NOW + 3_600_001)
        data = build_batch(records)
        assert must_walk(parse_batches(data)[0], DEFAULTS, NOW)
        error = refusal(run, data)
        assert error.code is ErrorCode.invalid_timestamp
        assert error.message == "One or more records have been rejected due to invalid timestamp"
        assert isinstance(error, InvalidRecords)
        assert error.records == (
            (
                2,
                f"Timestamp {NOW + 3_600_001} of message with offset 2 is out of range. "
                f"The timestamp should be within [{NOW - (2**63 - 1)}, {NOW + 3_600_000}]",
            ),
        )

    @pytest.mark.parametrize("codec", list(Compression))
    def test_timestamp_bound_in_the_past(self, run: Callable[..., Validated], codec: Compression) -> None:
        config = topic(message_timestamp_before_max_ms=1000)
        run(build_batch([*RECORDS, Record(b"x", b"", NOW - 1000), Record(b"x", b"", -1)], compression=codec), config)
        error = refusal(run, build_batch([*RECORDS, Record(b"x", b"", NOW - 1001)], compression=codec), config)
        assert isinstance(error, InvalidRecords)
        assert [index for index, _ in error.records] == [5]

    def test_wrong_max_timestamp_in_the_header_is_detected(self, run: Callable[..., Validated]) -> None:
        data = edited(build_batch([*RECORDS, Record(b"x", b"", NOW + 5000)]), max_timestamp=NOW)
        assert refusal(run, data, topic(message_timestamp_after_max_ms=1000)).code is ErrorCode.invalid_timestamp
        assert run(data, topic(message_timestamp_after_max_ms=9000)).batches[0].max_timestamp == NOW + 5000

    @pytest.mark.parametrize("codec", list(Compression))
    def test_log_append_time(self, run: Callable[..., Validated], codec: Compression) -> None:
        config = topic(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1)
        data = build_batch([Record(b"k", b"v", 5), Record(b"k", b"v", 2**60)], compression=codec)
        valid = run(data, config)
        assert {record.timestamp for record in decode_batch(valid.data, valid.batches[0])} == {NOW}
        error = refusal(run, build_batch(RECORDS, compression=codec, append_time_ms=NOW), config)
        assert error.code is ErrorCode.invalid_timestamp
        assert isinstance(error, InvalidRecords) and len(error.records) == len(RECORDS)


class TestCompactedTopics:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_records_need_keys(self, run: Callable[..., Validated], codec: Compression) -> None:
        config = topic(cleanup_policy="compact,delete")
        run(build_batch([*RECORDS, Record(b"", None, NOW)], compression=codec), config)
        error = refusal(run, build_batch([*RECORDS, *[Record(None, b"v", NOW)] * 4], compression=codec), config)
        assert error.code is ErrorCode.invalid_record
        reason = "Compacted topic cannot accept message without key in topic partition orders-3"
        assert isinstance(error, InvalidRecords)
        assert error.records == tuple((index, reason) for index in range(5, 9))
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index in range(5, 8))
        assert error.message == (
            "One or more records have been rejected due to 4 record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )

    def test_invalid_timestamp_decides_the_error_code(self, run: Callable[..., Validated]) -> None:
        config = topic(cleanup_policy="compact", message_timestamp_before_max_ms=1000)
        error = refusal(run, build_batch([Record(None, b"", 5), Record(b"k", b"", 5)]), config)
        assert error.code is ErrorCode.invalid_timestamp
        assert isinstance(error, InvalidRecords) and [index for index, _ in error.records] == [0, 1]

    def test_list_of_rejected_records_is_bounded(self, run: Callable[..., Validated]) -> None:
        data = build_batch([Record(None, None, NOW)] * 60_000, compression=Compression.ZSTD)
        error = refusal(run, data, topic(cleanup_policy="compact"))
        assert isinstance(error, InvalidRecords) and 10_000 <= len(error.records) < 30_000

    @pytest.mark.parametrize("codec", list(Compression))
    def test_malformed_records(self, run: Callable[..., Validated], codec: Compression) -> None:
        (header,) = parse_batches(build_batch(RECORDS))
        for payload in (b"\xff" * 40, build_batch(RECORDS)[61:-1], build_batch(RECORDS)[61:] + b"\0", b""):
            header.attributes = codec
            data = sealed(header, compress(codec, payload))
            assert refusal(run, data, topic(cleanup_policy="compact")).code is ErrorCode.invalid_record

    @pytest.mark.parametrize("codec", list(Compression)[1:])
    def test_undecodable_compressed_data_is_rejected(self, run: Callable[..., Validated], codec: Compression) -> None:
        (header,) = parse_batches(build_batch(RECORDS))
        header.attributes = codec
        data = sealed(header, b"\xff" * 50)
        assert refusal(run, data, topic(cleanup_policy="compact")).code is ErrorCode.unknown_server_error

    def test_offset_deltas_out_of_order_are_rejected(self, run: Callable[..., Validated]) -> None:
        data = bytearray(build_batch([Record(b"k", b"v", NOW)] * 2))
        data[61 + (len(data) - 61) // 2 + 3] = 4
        error = refusal(run, edited(bytes(data)), topic(cleanup_policy="compact"))
        assert error.code is ErrorCode.invalid_record

    def test_decompression_bomb_gets_message_too_large(self, run: Callable[..., Validated]) -> None:
        (header,) = parse_batches(build_batch(RECORDS))
        header.attributes = Compression.ZSTD
        data = sealed(header, compress(Compression.ZSTD, bytes(200 * 1024 * 1024)))
        error = refusal(run, data, topic(cleanup_policy="compact"))
        assert isinstance(error, DecompressionTooLarge) and error.code is ErrorCode.message_too_large


class TestRecompression:
    @pytest.mark.parametrize("source", list(Compression))
    @pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_recompression_to_the_topics_codec(
        self, run: Callable[..., Validated], source: Compression, target: str
    ) -> None:
        codec = Compression.NONE if target == "uncompressed" else Compression.from_name(target)
        data = build_batch(
            RECORDS, compression=source, producer_id=7, producer_epoch=1, base_sequence=40, is_transactional=True
        )
        valid = run(data, topic(compression_type=target))
        (header,) = valid.batches
        assert header.compression == codec
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
        assert header.is_transactional
        assert decode_batch(valid.data, header) == decode_batch(data, parse_batches(data)[0])
        if source == codec:
            assert bytes(valid.data) == data

    def test_recompression_uses_the_topics_level(self, run: Callable[..., Validated]) -> None:
        data = build_batch([Record(b"k", bytes(range(200)) * 20, NOW)] * 20)
        sizes = [
            len(run(data, topic(compression_type="zstd", compression_zstd_level=level)).data) for level in (-50, 19)
        ]
        assert sizes[0] > sizes[1]

    def test_recompression_with_log_append_time(self, run: Callable[..., Validated]) -> None:
        valid = run(build_batch(RECORDS), topic(compression_type="gzip", message_timestamp_type="LogAppendTime"))
        (header,) = valid.batches
        assert header.timestamp_type_is_append and header.max_timestamp == NOW

    def test_recompressed_size_is_checked(self, run: Callable[..., Validated]) -> None:
        packed = build_batch([Record(b"k", bytes(5000), NOW)], compression=Compression.ZSTD)
        config = topic(compression_type="uncompressed", max_message_bytes=1000)
        assert len(packed) < 1000
        assert refusal(run, packed, config).code is ErrorCode.message_too_large

    def test_recompression_drops_the_delete_horizon(self, run: Callable[..., Validated]) -> None:
        valid = run(edited(build_batch(RECORDS), attributes=0x40), topic(compression_type="gzip"))
        assert valid.batches[0].attributes == Compression.GZIP
