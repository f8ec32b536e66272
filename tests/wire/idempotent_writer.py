"""A producer that survives its broker: every batch that it sends must end up in the log once and in order.

It uses raw requests, so that it knows which bytes were sent, which were acknowledged, and which are unknown.
"""

import random
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.raw_wire import ConnectionClosed, RawConnection, decode_response
from tests.record_batches import HEADER_SIZE, TestRecord, batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
IN_FLIGHT_MAX = 5
_BASE_OFFSET_SIZE, _EPOCH_AT = 8, 12


@dataclass(frozen=True)
class Sent:
    base_offset: int
    record_count: int
    data: bytes


@dataclass
class PartitionWriter:
    """One partition, one producer ID, up to five batches in flight."""

    topic: str
    partition: int
    producer_id: int
    sent: list[Sent] = field(default_factory=list)
    acknowledged: int = 0
    next_offset: int = 0

    @property
    def unknown(self) -> list[Sent]:
        """Batches that were sent but not acknowledged: they may or may not be in the log."""
        return self.sent[self.acknowledged :]

    def next_batch(self, chance: random.Random) -> Sent:
        records = [
            TestRecord(
                chance.randbytes(chance.choice((10, 100, 1000, 20_000))), key=b"%d" % (self.next_offset + number)
            )
            for number in range(chance.randint(1, 5))
        ]
        # Producers expire by the timestamps of their records, so these have to be current.
        data = batch(
            *records,
            timestamp=int(time.time() * 1000),
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self.next_offset,
        )
        made = Sent(self.next_offset, len(records), data)
        self.sent.append(made)
        self.next_offset += len(records)
        return made

    def on_response(self, base_offset: int) -> None:
        expected = self.sent[self.acknowledged]
        assert base_offset == expected.base_offset, (
            f"{self.topic}-{self.partition}: acknowledged at {base_offset}, expected {expected.base_offset}"
        )
        self.acknowledged += 1


class IdempotentWriter:
    """Writes to several partitions over one connection, until the broker is gone."""

    def __init__(self, partitions: list[PartitionWriter], chance: random.Random) -> None:
        self.partitions = partitions
        self._chance = chance
        self._in_flight: deque[PartitionWriter] = deque()

    def resend_unknown(self, connection: RawConnection) -> None:
        """Resends the same bytes and sequence numbers after a restart; the broker must acknowledge every batch."""
        self._in_flight.clear()
        for partition in self.partitions:
            for sent in partition.unknown:
                self._send(connection, partition, sent)
        while self._in_flight:
            self._receive(connection)

    def write_one(self, connection: RawConnection) -> None:
        """Sends one batch, after waiting until fewer are in flight. Raises ConnectionClosed if the broker is gone."""
        partition = self._chance.choice(self.partitions)
        while len(partition.unknown) >= IN_FLIGHT_MAX:
            self._receive(connection)
        self._send(connection, partition, partition.next_batch(self._chance))

    def drain(self, connection: RawConnection) -> None:
        """Reads the responses that the broker sent before it was killed."""
        try:
            while self._in_flight:
                self._receive(connection)
        except ConnectionClosed:
            pass

    def _send(self, connection: RawConnection, partition: PartitionWriter, sent: Sent) -> None:
        self._in_flight.append(partition)
        data = [{"index": partition.partition, "records": sent.data}]
        connection.send(
            Api.PRODUCE,
            PRODUCE_VERSION,
            {"acks": -1, "timeout": 30_000, "topic_data": [{"name": partition.topic, "partition_data": data}]},
        )

    def _receive(self, connection: RawConnection) -> None:
        response = decode_response(Api.PRODUCE, PRODUCE_VERSION, connection.receive())
        partition = self._in_flight.popleft()
        (topic,) = response.responses
        (result,) = topic.partition_responses
        assert (topic.name, result.index) == (partition.topic, partition.partition), "responses came out of order"
        assert result.error_code is ErrorCode.none, f"{partition.topic}-{result.index}: {result.error_code.name}"
        partition.on_response(result.base_offset)


def assert_log_equals(connection: RawConnection, partition: PartitionWriter, expected: list[Sent]) -> None:
    """Every batch of `expected` is in the log at its offset, byte for byte, with nothing between."""
    if not expected:
        return
    end = expected[-1].base_offset + expected[-1].record_count
    position = expected[0].base_offset
    remaining = iter(expected)
    while position < end:
        records = _fetch(connection, partition, position)
        start = 0
        while start + HEADER_SIZE <= len(records) and position < end:
            base_offset, length = struct.unpack_from(">qi", records, start)
            found = records[start : start + 12 + length]
            if len(found) < 12 + length:
                break
            wanted = next(remaining)
            assert base_offset == wanted.base_offset, f"{partition.topic}: {base_offset} where {wanted} belongs"
            assert _without_brokers_fields(found) == _without_brokers_fields(wanted.data), f"bytes at {base_offset}"
            position = base_offset + wanted.record_count
            start += len(found)
        assert start, f"nothing readable at {position} of {partition.topic}-{partition.partition}"


def _without_brokers_fields(data: bytes) -> bytes:
    """A batch without its base offset and leader epoch, the only bytes a broker may change."""
    return data[_BASE_OFFSET_SIZE:_EPOCH_AT] + data[_EPOCH_AT + 4 :]


def _fetch(connection: RawConnection, partition: PartitionWriter, offset: int) -> bytes:
    wanted = {"partition": partition.partition, "fetch_offset": offset, "partition_max_bytes": 4 << 20}
    response = connection.request(
        Api.FETCH,
        FETCH_VERSION,
        {"max_wait": 0, "session_epoch": -1, "topics": [{"topic": partition.topic, "partitions": [wanted]}]},
    )
    (result,) = response.responses[0].partitions
    assert result.error_code is ErrorCode.none, f"{partition.topic}-{partition.partition}: {result.error_code.name}"
    return bytes(result.records)
