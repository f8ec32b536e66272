"""Damaged requests of every API, 20,000 in `make test` and 100,000 in `make proof`: each costs only its connection.

Meanwhile a well-behaved client never waits 100 ms for a response, and memory does not grow.
ODRADEK_FUZZ_SEED and ODRADEK_FUZZ_REQUESTS repeat or lengthen the run.
"""

import os
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek.records.compression import MAX_DECOMPRESSED_BYTES
from tests.apis import Api
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import ConnectionClosed, RawConnection, encode_request, framed
from tests.record_batches import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD, TestRecord, batch
from tests.wire.fuzzing import TOPIC, Mutator, corpus
from tests.wire.stall_watch import StallWatch

REQUESTS = int(os.environ.get("ODRADEK_FUZZ_REQUESTS", "20000"))
SEED = int(os.environ.get("ODRADEK_FUZZ_SEED", "1883"))
WORKERS = 4
FRAMES_PER_CONNECTION = 8
PATIENCE_S = 0.05
# Validating the first large batch loads a compiler, which alone takes 76 MB.
MEMORY_GROWTH_MAX = 128 << 20
MARKER = 0x5EED

BOMB_BYTES = 256 << 20
ELSEWHERE_BYTES = 32 << 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OdradekProcess]:
    node = OdradekProcess(tmp_path).start()
    with RawConnection(node.port) as connection:
        for name in (TOPIC, "bystander"):
            topic = {"name": name, "num_partitions": 2, "replication_factor": 1}
            connection.request(Api.CREATE_TOPICS, 5, {"topics": [topic], "timeout": 10_000})
    yield node
    node.kill()


def bystander(node: NodeProcess) -> StallWatch:
    return StallWatch(node, "tests.wire.bystander", "bystander")


@pytest.mark.timeout(600)
def test_damaged_requests_cost_only_their_connection(node: OdradekProcess) -> None:
    for request in corpus():
        # Undamaged, so that every schema is loaded before memory is measured.
        _send_and_receive(node.port, [framed(request)], patience_s=10)
    resident_before = node.resident_bytes
    with bystander(node), ThreadPoolExecutor(WORKERS) as workers:
        runs = [workers.submit(_fuzz, node, SEED + 1 + worker, REQUESTS // WORKERS) for worker in range(WORKERS)]
        for run in runs:
            run.result()
    assert node.process is not None
    assert node.process.poll() is None, f"the node died:\n{node.output_file.read_text()[-3000:]}"
    grown = _peak_resident_bytes(node) - resident_before
    assert grown < MEMORY_GROWTH_MAX, f"memory grew by {grown >> 20} MiB"
    node.stop()
    assert "Traceback" not in node.output_file.read_text(), "a damaged request reached code that did not expect it"


def _fuzz(node: NodeProcess, seed: int, requests: int) -> None:
    mutator = Mutator(seed)
    for _ in range(0, requests, FRAMES_PER_CONNECTION):
        frames = [mutator.next_frame() for _ in range(FRAMES_PER_CONNECTION)]
        try:
            _send_and_receive(node.port, frames)
        except ConnectionClosed:
            continue
        except (TimeoutError, ConnectionRefusedError) as problem:
            assert node.process is not None
            assert node.process.poll() is None, f"the node died of seed {seed}: {problem}"


def _send_and_receive(port: int, frames: list[bytes], patience_s: float = PATIENCE_S) -> None:
    """Sends all frames and one valid request; reads up to its response, the end of the connection, or a timeout.

    A timeout is legitimate: a frame may announce more bytes than follow, or be a fetch that waits.
    """
    with RawConnection(port) as connection:
        connection.send_bytes(b"".join(frames) + encode_request(Api.API_VERSIONS, 0, MARKER, {}))
        connection.socket.settimeout(patience_s)
        while struct.unpack_from(">i", connection.receive())[0] != MARKER:
            pass


def _peak_resident_bytes(node: NodeProcess) -> int:
    status = Path(f"/proc/{node.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize(
    "codec",
    [*(pytest.param(codec, marks=pytest.mark.tier("proof")) for codec in (GZIP, SNAPPY, LZ4)), ZSTD],
    ids=lambda codec: CODEC_NAMES[codec],
)
def test_decompression_bombs_are_rejected_within_the_memory_budget(node: OdradekProcess, codec: int) -> None:
    """A small batch that decompresses to a quarter of a gigabyte, on a topic whose batches the broker decompresses."""
    with RawConnection(node.port) as connection:
        configs = [{"name": "compression.type", "value": "uncompressed"}]
        topic = {"name": "bombed", "num_partitions": 1, "replication_factor": 1, "configs": configs}
        connection.request(Api.CREATE_TOPICS, 5, {"topics": [topic], "timeout": 10_000})
        time.sleep(0.2)
        resident_before = node.resident_bytes
        with bystander(node):
            bomb = batch(TestRecord(bytes(BOMB_BYTES)), codec=codec)
            topic_data = [{"name": "bombed", "partition_data": [{"index": 0, "records": bomb}]}]
            response = connection.request(Api.PRODUCE, 9, {"acks": -1, "timeout": 10_000, "topic_data": topic_data})
            assert response.responses[0].partition_responses[0].error_code.name != "none"
    # Twice the frame, plus the fixed decompression budget.
    allowed = 2 * len(bomb) + MAX_DECOMPRESSED_BYTES + ELSEWHERE_BYTES
    assert _peak_resident_bytes(node) - resident_before < allowed


def test_slow_senders_take_no_memory_and_delay_no_client(node: OdradekProcess) -> None:
    """The connections announce large frames, but send only one byte of them."""
    resident_before = node.resident_bytes
    slow = [RawConnection(node.port) for _ in range(100)]
    try:
        for connection in slow:
            connection.send_bytes(struct.pack(">i", 100_000_000) + b"\0")
        with bystander(node):
            # The bystander runs its minimum number of rounds.
            pass
        assert node.resident_bytes - resident_before < MEMORY_GROWTH_MAX
    finally:
        for connection in slow:
            connection.close()
