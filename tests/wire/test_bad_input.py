"""Malformed and oversized requests cost only their own connection: no memory, and no delay for other clients."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import cramjam
import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.odradek_process import OdradekProcess
from tests.raw_wire import ConnectionClosed, RawConnection, encode_request, framed
from tests.record_batches import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD, TestRecord, batch, compress, encode_record
from tests.wire.plain_requests import (
    TOPIC_RESOURCE,
    create_topic,
    fetch,
    now_ms,
    produce,
    produce_batch,
    produce_fields,
)
from tests.wire.stall_watch import StallWatch

REQUEST_BYTES_MAX = 8 << 20
UNKNOWN_API = 999
TOPIC = "target"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    properties = {"socket.request.max.bytes": str(REQUEST_BYTES_MAX)}
    node = OdradekProcess(tmp_path_factory.mktemp("bad-input"), properties=properties).start()
    with RawConnection(node.port) as connection:
        assert create_topic(connection, TOPIC, configs={"max.message.bytes": str(REQUEST_BYTES_MAX)}) is ErrorCode.none
    yield node
    node.kill()


def header(api_key: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1) + (b"\0" if flexible else b"")


def is_refused(node: OdradekProcess, data: bytes) -> bool:
    with RawConnection(node.port, timeout_s=30) as connection:
        connection.send_bytes(data)
        try:
            connection.receive()
        except ConnectionClosed:
            return True
    return False


def memory_peak(node: OdradekProcess) -> int:
    status = Path(f"/proc/{node.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def reset_memory_peak(node: OdradekProcess) -> None:
    Path(f"/proc/{node.pid}/clear_refs").write_text("5")


COUNT = struct.pack(">i", 2**31 - 1)
LONG_VARINT = b"\xff\xff\xff\xff\x07"
PRODUCE_BEGIN = struct.pack(">hhi", -1, -1, 1000)
HOSTILE = {
    "negative length": struct.pack(">i", -1),
    "least length": struct.pack(">i", -(2**31)),
    "one byte over the limit": struct.pack(">i", REQUEST_BYTES_MAX + 1) + bytes(100),
    "greatest length": struct.pack(">i", 2**31 - 1),
    "empty frame": framed(b""),
    "less than a header": framed(b"\0\3\0\1"),
    "client id beyond the end": framed(struct.pack(">hhih", Api.METADATA, 1, 1, 30_000)),
    "unknown API": framed(header(UNKNOWN_API, 0)),
    "negative API": framed(header(-1, 0)),
    "API of share groups": framed(header(76, 1) + bytes(50)),
    "API between brokers": framed(header(4, 5) + bytes(50)),
    "version too new": framed(header(Api.METADATA, 99) + bytes(50)),
    "version negative": framed(header(Api.METADATA, -1) + bytes(50)),
    "Produce before 3": framed(header(Api.PRODUCE, 2) + bytes(50)),
    "no body": framed(header(Api.METADATA, 1)),
    "count beyond the bytes": framed(header(Api.METADATA, 1) + COUNT),
    "flexible count beyond the bytes": framed(header(Api.METADATA, 12, flexible=True) + LONG_VARINT),
    "tagged fields beyond the bytes": framed(header(Api.METADATA, 12) + LONG_VARINT),
    "tag longer than the bytes": framed(header(Api.METADATA, 12) + b"\1\0" + LONG_VARINT),
    "number without an end": framed(header(Api.METADATA, 12, flexible=True) + b"\xff" * 12),
    "string beyond the bytes": framed(header(Api.METADATA, 1) + struct.pack(">ih", 1, 32767) + b"abc"),
    "negative string": framed(header(Api.METADATA, 1) + struct.pack(">ih", 1, -5) + b"abc"),
    "topics of Produce beyond the bytes": framed(header(Api.PRODUCE, 3) + PRODUCE_BEGIN + COUNT),
    "partitions of Produce beyond the bytes": framed(
        header(Api.PRODUCE, 3) + PRODUCE_BEGIN + struct.pack(">ih", 1, 1) + b"t" + COUNT
    ),
    "records of Produce beyond the bytes": framed(
        header(Api.PRODUCE, 3) + PRODUCE_BEGIN + struct.pack(">ih1siii", 1, 1, b"t", 1, 0, 2**31 - 1)
    ),
    "flexible Produce that ends early": framed(header(Api.PRODUCE, 9, flexible=True) + b"\0" + LONG_VARINT),
    "Fetch of more than the bytes": framed(header(Api.FETCH, 4) + struct.pack(">iiiib", -1, 0, 1, 1, 0) + COUNT),
    "CreateTopics of more than the bytes": framed(header(Api.CREATE_TOPICS, 2) + COUNT),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_malformed_request_closes_only_its_connection(node: OdradekProcess, data: bytes) -> None:
    with RawConnection(node.port) as bystander:
        assert is_refused(node, data)
        assert bystander.request(Api.API_VERSIONS, 0).error_code is ErrorCode.none


def test_unsupported_version_of_api_versions_gets_an_error_response(node: OdradekProcess) -> None:
    with RawConnection(node.port) as connection:
        connection.send_bytes(framed(header(Api.API_VERSIONS, 99)))
        response = connection.receive()
        correlation_id, error = struct.unpack_from(">ih", response)
        assert (correlation_id, error) == (1, ErrorCode.unsupported_version)
        # The connection stays open for a supported version.
        assert connection.request(Api.API_VERSIONS, 2).error_code is ErrorCode.none


def test_requests_before_a_malformed_request_get_responses(node: OdradekProcess) -> None:
    with RawConnection(node.port) as connection:
        good = encode_request(Api.API_VERSIONS, 0, 7, {})
        connection.send_bytes(good + good + HOSTILE["greatest length"])
        assert [struct.unpack_from(">i", connection.receive())[0] for _ in range(2)] == [7, 7]
        with pytest.raises(ConnectionClosed):
            connection.receive()


def test_request_of_the_maximum_size_is_accepted(node: OdradekProcess) -> None:
    with RawConnection(node.port) as connection:
        room = REQUEST_BYTES_MAX - len(encode_request(Api.PRODUCE, 9, 1, produce_fields(TOPIC, b""))) - 100
        large = batch(TestRecord(bytes(room - 100)), timestamp=now_ms())
        reset_memory_peak(node)
        resident = node.resident_bytes
        assert produce_batch(connection, TOPIC, large).error is ErrorCode.none
        assert memory_peak(node) - resident < 2.5 * REQUEST_BYTES_MAX


ILLEGAL_NAMES = ["", ".", "..", "a/b", "../escape", "a\\b", "a b", "a:b", "ü", "x" * 250, "a\0b", "a\nb", "con*"]


@pytest.mark.parametrize("name", ILLEGAL_NAMES, ids=lambda name: ascii(name)[:12])
def test_invalid_topic_names_are_rejected(node: OdradekProcess, name: str) -> None:
    before = directories(node)
    with RawConnection(node.port) as connection:
        assert create_topic(connection, name) is ErrorCode.invalid_topic_exception
        # Auto-creation by a Metadata request rejects it, too.
        (described,) = connection.request(
            Api.METADATA, 9, {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        ).topics
        assert described.error_code is ErrorCode.invalid_topic_exception
        assert produce(connection, name, b"value").error in (
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.invalid_topic_exception,
        )
    assert directories(node) == before


def directories(node: OdradekProcess) -> list[Path]:
    """Directories only: checkpoint files are written all the time."""
    return sorted(path for path in node.log_dirs[0].parent.rglob("*") if path.is_dir())


def test_topic_name_of_the_maximum_length_is_accepted(node: OdradekProcess) -> None:
    name = "n" * 249
    with RawConnection(node.port) as connection:
        assert create_topic(connection, name) is ErrorCode.none
        assert produce(connection, name, b"value").offset == 0
        assert fetch(connection, name).values == [b"value"]


INVALID_BATCHES = {
    "wrong CRC": (batch(TestRecord(), crc=0xDEADBEEF), ErrorCode.corrupt_message),
    "flipped bit": (batch(TestRecord())[:-1] + b"\x7f", ErrorCode.corrupt_message),
    "truncated": (batch(TestRecord(bytes(100)))[:-10], ErrorCode.invalid_record),
    "length beyond the records": (
        struct.pack(">qi", 0, 2**31 - 1) + batch(TestRecord())[12:],
        ErrorCode.invalid_record,
    ),
    "negative length": (struct.pack(">qi", 0, -1) + batch(TestRecord())[12:], ErrorCode.corrupt_message),
    "no bytes": (b"", ErrorCode.invalid_record),
    "few bytes": (b"\0" * 20, ErrorCode.invalid_record),
    "unknown codec": (batch(TestRecord(), attributes=7), ErrorCode.unknown_server_error),
    "count and offsets apart": (batch(TestRecord(), record_count=5), ErrorCode.invalid_record),
    "no records": (batch(TestRecord(), record_count=0), ErrorCode.invalid_record),
    "offsets reversed": (batch(TestRecord(), last_offset_delta=-1, record_count=0), ErrorCode.invalid_record),
    "control batch": (batch(TestRecord(), attributes=0x20), ErrorCode.invalid_record),
    "two batches": (batch(TestRecord()) * 2, ErrorCode.invalid_record),
}


@pytest.mark.parametrize(("records", "expected"), INVALID_BATCHES.values(), ids=INVALID_BATCHES)
def test_invalid_batches_are_rejected_and_never_stored(
    node: OdradekProcess, records: bytes, expected: ErrorCode
) -> None:
    with RawConnection(node.port) as connection:
        end = fetch(connection, TOPIC, max_bytes=100).high_watermark
        assert produce_batch(connection, TOPIC, records).error is expected
        assert fetch(connection, TOPIC, max_bytes=100).high_watermark == end
        assert produce(connection, TOPIC, b"good").offset == end


# Decompression bombs

BOMB_BYTES = 1 << 28
BUDGET_BYTES = 220 << 20


def zeros(codec: int, size: int) -> bytes:
    """A compressed stream of `size` zeros, built without holding them in memory."""
    chunk = bytes(1 << 20)
    if codec == GZIP:
        compressor = zlib.compressobj(9, wbits=31)
        return b"".join(compressor.compress(chunk) for _ in range(size >> 20)) + compressor.flush()
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(chunk[: 32 << 10]))
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * (size >> 15)
    module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
    compressor = module.Compressor()
    parts = []
    for _ in range(size >> 20):
        compressor.compress(chunk)
        parts.append(bytes(compressor.flush()))
    parts.append(bytes(compressor.finish()))
    return b"".join(parts)


def bomb(codec: int, size: int = BOMB_BYTES) -> bytes:
    """A batch that decompresses to one enormous record, as large as the request limit allows."""
    body = zeros(codec, size)
    # Snappy and LZ4 do not shrink zeros enough for the request's limit.
    while len(body) > REQUEST_BYTES_MAX - 1000:
        size //= 2
        body = zeros(codec, size)
    return batch(codec=codec, body=body, record_count=1, last_offset_delta=0, timestamp=now_ms())


@pytest.fixture(scope="module")
def bombs(node: OdradekProcess) -> dict[int, bytes]:
    _load_compiled_walk(node)
    return {codec: bomb(codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)}


def _load_compiled_walk(node: OdradekProcess) -> None:
    """Loads the compiler, which takes memory once, when the first large batch is validated."""
    with RawConnection(node.port) as connection:
        create_topic(connection, "walked", configs={"cleanup.policy": "compact"})
        many = batch(*(TestRecord(b"value", key=b"key") for _ in range(5000)), timestamp=now_ms())
        assert produce_batch(connection, "walked", many).error is ErrorCode.none


@pytest.mark.parametrize("configs", [{"cleanup.policy": "compact"}, {"compression.type": "uncompressed"}], ids=str)
def test_decompression_bombs_are_rejected_within_the_memory_budget(
    node: OdradekProcess, bombs: dict[int, bytes], configs: dict[str, str]
) -> None:
    topic = f"bombed-{'-'.join(configs.values())}"
    with RawConnection(node.port) as connection:
        assert create_topic(connection, topic, configs={**configs, "max.message.bytes": "10000000"}) is ErrorCode.none
        with StallWatch(node):
            for codec, body in bombs.items():
                reset_memory_peak(node)
                resident = node.resident_bytes
                assert produce_batch(connection, topic, body).error is not ErrorCode.none, CODEC_NAMES[codec]
                grown = memory_peak(node) - resident
                assert grown < 2 * len(body) + BUDGET_BYTES, f"{CODEC_NAMES[codec]}: {grown >> 20} MiB"


def test_concurrent_decompression_bombs_share_one_memory_budget(node: OdradekProcess, bombs: dict[int, bytes]) -> None:
    topic = "bombed-at-once"
    with RawConnection(node.port) as connection:
        assert create_topic(connection, topic, configs={"cleanup.policy": "compact"}) is ErrorCode.none
        reset_memory_peak(node)
        resident = node.resident_bytes
        connections = [RawConnection(node.port) for _ in range(12)]
        with StallWatch(node):
            for one in connections:
                one.send(Api.PRODUCE, 9, produce_fields(topic, bombs[ZSTD]))
            for one in connections:
                one.receive()
                one.close()
        assert memory_peak(node) - resident < BUDGET_BYTES + 24 * len(bombs[ZSTD])


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD], ids=lambda codec: CODEC_NAMES[codec])
def test_batch_of_a_million_tiny_records_does_not_stall(node: OdradekProcess, codec: int) -> None:
    """The batch is small and its header is correct, but every record has to be validated."""
    topic = f"crowded-{CODEC_NAMES[codec]}"
    count = 1_000_000
    one = encode_record(TestRecord(b"", key=b"k"), 0)
    body = compress(codec, one * count)
    crowded = batch(codec=codec, body=body, record_count=count, last_offset_delta=count - 1, timestamp=now_ms())
    with RawConnection(node.port) as connection:
        assert create_topic(connection, topic, configs={"cleanup.policy": "compact"}) is ErrorCode.none
        with StallWatch(node):
            response = produce_batch(connection, topic, crowded)
        # All records have the same offset delta.
        assert response.error is ErrorCode.invalid_record


# Requests with many tiny elements, and many tiny requests


MANY = 200_000
TOO_MANY = 1_000_000
# What a decoded element may take, with its part of the response.
ELEMENT_BYTES_MAX = 1000
EMPTY_NAME, NO_RECORDS = b"\0\0", struct.pack(">ii", 0, -1)


def metadata_of(count: int) -> bytes:
    return framed(header(Api.METADATA, 1) + struct.pack(">i", count) + EMPTY_NAME * count)


def produce_to(topics: int, partitions: int) -> bytes:
    topic = struct.pack(">h6si", 6, TOPIC.encode(), partitions) + NO_RECORDS * partitions
    return framed(header(Api.PRODUCE, 3) + PRODUCE_BEGIN + struct.pack(">i", topics) + topic * topics)


def offsets_of(topics: int, partitions: int) -> bytes:
    topic = struct.pack(">h6si", 6, TOPIC.encode(), partitions) + struct.pack(">iq", 0, -1) * partitions
    return framed(header(Api.LIST_OFFSETS, 1) + struct.pack(">ii", -1, topics) + topic * topics)


def deletion_of(topics: int) -> bytes:
    return framed(header(Api.DELETE_TOPICS, 1) + struct.pack(">i", topics) + EMPTY_NAME * topics + bytes(4))


MANY_ELEMENTS = {
    "topics of Metadata": metadata_of(MANY),
    "partitions of Produce": produce_to(1, MANY),
    "topics and partitions of Produce": produce_to(1000, MANY // 1000),
    "partitions of ListOffsets": offsets_of(1, MANY),
    "topics and partitions of ListOffsets": offsets_of(1000, MANY // 1000),
}


@pytest.mark.parametrize("request_bytes", MANY_ELEMENTS.values(), ids=MANY_ELEMENTS)
def test_requests_with_many_tiny_elements_do_not_stall(node: OdradekProcess, request_bytes: bytes) -> None:
    """Their memory is proportional to their size."""
    reset_memory_peak(node)
    resident = node.resident_bytes
    with RawConnection(node.port, timeout_s=120) as connection, StallWatch(node):
        connection.send_bytes(request_bytes)
        connection.receive()
    grown = memory_peak(node) - resident
    assert grown < MANY * ELEMENT_BYTES_MAX + (16 << 20), f"{grown >> 20} MiB"


def test_requests_that_are_not_handled_in_slices_have_a_limited_number_of_elements(node: OdradekProcess) -> None:
    reset_memory_peak(node)
    resident = node.resident_bytes
    too_many = deletion_of(TOO_MANY)
    with StallWatch(node):
        assert is_refused(node, too_many)
    grown = memory_peak(node) - resident
    assert grown < 2 * len(too_many) + (32 << 20), f"{grown >> 20} MiB"


def test_describe_configs_of_many_resources_does_not_stall(node: OdradekProcess) -> None:
    resources = [{"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC} for _ in range(500)]
    with RawConnection(node.port) as connection, StallWatch(node):
        assert len(connection.request(Api.DESCRIBE_CONFIGS, 4, {"resources": resources}).results) == 500


def test_flood_of_small_requests_does_not_stall(node: OdradekProcess) -> None:
    request = encode_request(Api.METADATA, 1, 5, {"topics": []})
    with StallWatch(node), RawConnection(node.port) as connection:
        for _ in range(5):
            connection.send_bytes(request * 2000)
            for _ in range(2000):
                assert struct.unpack_from(">i", connection.receive())[0] == 5
