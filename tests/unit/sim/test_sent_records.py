"""The checker of Fetch responses on the wire, with a log and responses that the tests write themselves."""

from random import Random
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition, uuid_to_text
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.checkers.sent_records import (
    ARRIVES,
    BELOW_WATERMARK,
    IDLE,
    INTACT,
    NOT_REMOVED,
    SAME_BYTES,
    check_sent_records,
)
from odradek.sim.disk import VirtualDisk
from odradek.sim.fetch_history import FetchHistory, Sent, SentResponse, Write
from odradek.sim.log_history import LogHistory
from odradek.sim.scheduler import Scheduler
from odradek.wire.fetch_codec import FetchedPartition, FetchedTopic, write_fetch_response
from odradek.wire.streamed_response import StreamedResponse

TOPIC_ID = UUID(int=77)
ORDERS = TopicPartition("orders", 0)
DIRECTORY = "/data/orders-0"
LOG = f"{DIRECTORY}/{0:020d}.log"
# The last version that names topics, and the newest one.
VERSIONS = (12, 17)
RUN_SECONDS = 100.0
IDLE_SECONDS = 10.0
CHUNK_BYTES = 100


def batch(offset: int, value: bytes = b"x" * 300) -> bytes:
    return offset.to_bytes(8) + build_batch([Record(None, value, 0)])[8:]


class Broker:
    """A log with three batches, and the responses that its broker sends."""

    def __init__(self) -> None:
        self.place = Scheduler().next_place
        self.disk = VirtualDisk(Random(1), lambda: 0)
        self.log = LogHistory(self.disk, self.place)
        for directory in ("/data", DIRECTORY):
            self.disk.make_dir(directory)
        metadata = self.disk.create(f"{DIRECTORY}/partition.metadata")
        metadata.write(0, f"version: 0\ntopic_id: {uuid_to_text(TOPIC_ID)}\n".encode(), 0)
        self.file = self.disk.create(LOG)
        self.batches = [batch(offset) for offset in range(3)]
        self.append(*self.batches)
        self.history = FetchHistory({"node1": self.log}, topic_names=self.log.topic_names())

    def append(self, *batches: bytes) -> None:
        for data in batches:
            self.file.write(self.file.cached.size, data, 0)

    def announce(
        self, records: bytes, *, version: int = VERSIONS[-1], is_for_follower: bool = False, high_watermark: int = 3
    ) -> "tuple[SentResponse, bytes]":
        """Returns the response and its bytes, which are not sent yet."""
        requested = self.place()
        partition = FetchedPartition(0, ErrorCode.none, high_watermark, high_watermark, 0, records=records)
        parts = write_fetch_response([FetchedTopic("orders", TOPIC_ID, [partition])], version)
        assert not isinstance(parts, StreamedResponse)
        body = b"\0\0\0\1\0" + b"".join(parts)
        data = len(body).to_bytes(4) + body
        response = SentResponse(
            sender="node1",
            receiver="client",
            name="fetch",
            version=version,
            requested=requested,
            size=len(data),
            place=self.place(),
            seconds=1.0,
            idle_seconds_max=IDLE_SECONDS,
            is_for_follower=is_for_follower,
            ended=Sent(RUN_SECONDS, 0.0),
        )
        self.history.responses.append(response)
        return response, data

    def send(self, response: SentResponse, data: bytes, seconds: float = 1.0) -> None:
        """In one piece."""
        start = len(response.data)
        response.writes.append(Write(self.place(), start, start + len(data)))
        response.data += data
        response.sent.append(Sent(seconds, 0.0))

    def respond(self, records: bytes, **how: Any) -> None:
        self.send(*self.announce(records, **how))

    @property
    def violations(self) -> list[str]:
        return [violation.rule for violation in check_sent_records(self.history)]


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_of_the_log_are_accepted(broker: Broker, version: int) -> None:
    broker.respond(b"".join(broker.batches), version=version)
    broker.respond(broker.batches[1], version=version)
    assert broker.violations == []


@pytest.mark.parametrize("version", VERSIONS)
def test_corrupt_batch_is_a_violation(broker: Broker, version: int) -> None:
    broker.respond(broker.batches[0][:-1] + b"?", version=version)
    assert broker.violations == [INTACT]


def test_batch_that_the_log_never_had_is_a_violation(broker: Broker) -> None:
    broker.respond(batch(1, b"other"))
    assert broker.violations == [SAME_BYTES]


def test_batch_that_is_cut_off_within_the_response_is_a_violation(broker: Broker) -> None:
    broker.respond(broker.batches[0] + broker.batches[1][:-5])
    assert broker.violations == [INTACT]


def test_skipped_and_repeated_batches_are_violations(broker: Broker) -> None:
    broker.respond(broker.batches[0] + broker.batches[2])
    broker.respond(broker.batches[0] * 2)
    assert broker.violations == [SAME_BYTES, SAME_BYTES]


def test_truncated_batches_may_be_sent_but_not_those_appended_in_their_place(broker: Broker) -> None:
    truncated, data = broker.announce(broker.batches[2])
    new = batch(2, b"y" * 300)
    later, later_data = broker.announce(new)
    broker.file.resize(len(broker.batches[0]) * 2, 0)
    broker.append(new)
    broker.send(truncated, data)
    broker.send(later, later_data)
    assert broker.violations == [SAME_BYTES]
    broker.respond(new)
    assert broker.violations == [SAME_BYTES]
    broker.respond(broker.batches[2])
    assert broker.violations == [SAME_BYTES, SAME_BYTES]


def test_bytes_before_a_broken_connection_are_checked(broker: Broker) -> None:
    sound, data = broker.announce(broker.batches[0])
    broker.send(sound, data[:200])
    wrong, other_data = broker.announce(batch(0, b"y" * 300))
    broker.send(wrong, other_data[:200])
    sound.ended = wrong.ended = Sent(1.5, 0.0)
    assert broker.violations == [SAME_BYTES]


def test_consumers_are_sent_only_records_below_the_high_watermark(broker: Broker) -> None:
    records = broker.batches[0] + broker.batches[1]
    broker.respond(records, version=12, high_watermark=2)
    broker.respond(records, version=12, high_watermark=1, is_for_follower=True)
    assert broker.violations == []
    broker.respond(records, version=12, high_watermark=1)
    assert broker.violations == [BELOW_WATERMARK]


def test_response_ends_when_its_file_is_removed(broker: Broker) -> None:
    response, data = broker.announce(b"".join(broker.batches))
    broker.send(response, data[:CHUNK_BYTES])
    broker.disk.rename(LOG, f"{LOG}.deleted")
    broker.send(response, data[CHUNK_BYTES : 2 * CHUNK_BYTES])
    broker.disk.remove(f"{LOG}.deleted")
    # It may have been read before.
    broker.send(response, data[2 * CHUNK_BYTES : 3 * CHUNK_BYTES])
    response.ended = Sent(1.5, 0.0)
    assert broker.violations == []
    broker.send(response, data[3 * CHUNK_BYTES :])
    assert broker.violations == [NOT_REMOVED]


def test_response_does_not_continue_after_the_idle_time(broker: Broker) -> None:
    response, data = broker.announce(broker.batches[0])
    broker.send(response, data[:CHUNK_BYTES], 1.0)
    broker.send(response, data[CHUNK_BYTES:200], 1.0 + IDLE_SECONDS)
    broker.send(response, data[200:], 3.0 + 2 * IDLE_SECONDS)
    assert broker.violations == [IDLE]


def test_response_that_stops_without_an_end_of_its_connection_is_a_violation(broker: Broker) -> None:
    response, data = broker.announce(broker.batches[0])
    broker.send(response, data[:CHUNK_BYTES])
    assert broker.violations == [ARRIVES]
    response.ended = Sent(2.0, 0.0)
    assert broker.violations == []


def test_power_loss_starts_the_log_anew(broker: Broker) -> None:
    response, data = broker.announce(broker.batches[0])
    broker.file.lose_power(Random(1))
    broker.append(batch(0, b"z"))
    broker.send(response, data)
    broker.respond(batch(0, b"z"))
    assert broker.violations == []
