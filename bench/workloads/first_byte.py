"""Measures when the first and the last byte of a large Fetch response arrive."""

import socket
import statistics
import struct
import time
from dataclasses import dataclass
from typing import Final

from bench.workloads.loads import PARTITIONS
from bench.workloads.sides import Side
from tests.apis import Api
from tests.raw_wire import RawConnection, encode_request

VERSION: Final = 12
PARTITION_BYTES: Final = 5 << 20
RESPONSE_BYTES: Final = 50 << 20
_BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Arrival:
    """Medians, from the request on."""

    first_byte_ms: float
    last_byte_ms: float
    response_mb: float


def measure(side: Side, topic: str, requests: int) -> Arrival:
    fields = {
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": RESPONSE_BYTES,
        "session_epoch": -1,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {"partition": number, "fetch_offset": 0, "partition_max_bytes": PARTITION_BYTES}
                    for number in range(PARTITIONS)
                ],
            }
        ],
    }
    frame = encode_request(Api.FETCH, VERSION, 1, fields)
    (address,) = set(side.addresses)
    with RawConnection(address.port) as connection:
        arrivals = [_fetch(connection.socket, frame) for _ in range(requests)]
    first, last, size = map(statistics.median, zip(*arrivals, strict=True))
    return Arrival(first, last, size)


def _fetch(connection: socket.socket, frame: bytes) -> tuple[float, float, float]:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    began = time.perf_counter()
    connection.sendall(frame)
    received = connection.recv_into(buffer)
    first_at = time.perf_counter()
    while received < 4:
        received += connection.recv_into(buffer[received:])
    (size,) = struct.unpack_from(">i", buffer)
    left = size + 4 - received
    while left:
        left -= connection.recv_into(buffer[: min(left, _BUFFER_BYTES)])
    last_at = time.perf_counter()
    return 1000 * (first_at - began), 1000 * (last_at - began), size / 1e6
