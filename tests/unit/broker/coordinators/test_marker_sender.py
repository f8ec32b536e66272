"""Markers reach every partition, whatever its leader says meanwhile, and are not sent again without need."""

import asyncio
import logging
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators import marker_sender as marker_sender
from odradek.broker.coordinators.broker_queues import BrokerPeers
from odradek.broker.coordinators.marker_sender import MarkerSender
from odradek.core.transactions.commands import Markers
from odradek.wire.schemas import schema
from tests.unit.broker.coordinators.tally import run

HERE, THERE = 1, 2
PARTITIONS = tuple(TopicPartition("t", index) for index in range(3))


class Leader:
    """A broker that leads all partitions, and returns the errors that the test sets."""

    def __init__(self) -> None:
        self.errors: dict[TopicPartition, list[ErrorCode]] = {}
        self.requests: list[list[tuple[int, TopicPartition]]] = []
        self.may_respond = asyncio.Event()
        self.may_respond.set()

    async def request(self, broker_id: int, api_key: int, build: Callable[[Any], Any]) -> Any:
        messages = schema(api_key, 2)
        markers = [
            (marker.producer_id, TopicPartition(topic.name, index))
            for marker in build(messages).markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        self.requests.append(markers)
        await self.may_respond.wait()
        by_producer: dict[int, list[TopicPartition]] = {}
        for producer_id, name in markers:
            by_producer.setdefault(producer_id, []).append(name)
        return SimpleNamespace(
            markers=[
                SimpleNamespace(
                    producer_id=producer_id,
                    topics=[
                        SimpleNamespace(
                            name=name.topic,
                            partitions=[
                                SimpleNamespace(partition_index=name.partition, error_code=self._error_of(name))
                            ],
                        )
                        for name in names
                    ],
                )
                for producer_id, names in by_producer.items()
            ]
        )

    def _error_of(self, name: TopicPartition) -> ErrorCode:
        said = self.errors.get(name)
        return said.pop(0) if said else ErrorCode.none


class Stage:
    def __init__(self) -> None:
        self.leader = Leader()
        self.written: list[TopicPartition] = []
        self.led_here: set[TopicPartition] = set()
        self.failures_here = 0
        self.sender = MarkerSender(
            HERE,
            cast(BrokerPeers, self.leader),
            image=self._image,
            random=random.Random(1),
            write_here=self._write_here,
        )

    def _image(self) -> Any:
        partitions = {
            name.partition: SimpleNamespace(leader=HERE if name in self.led_here else THERE) for name in PARTITIONS
        }
        return SimpleNamespace(topics_by_name={"t": SimpleNamespace(partitions=partitions)})

    def _write_here(self, markers: Markers) -> DeferredResponse:
        if self.failures_here:
            self.failures_here -= 1
            raise RuntimeError("a fault")
        return DeferredResponse.from_result(dict.fromkeys(markers.partitions, ErrorCode.none))

    def send(self, *partitions: TopicPartition, transactional_id: str = "x", producer_id: int = 7) -> None:
        markers = Markers(transactional_id, producer_id, 1, 5, True, 2, frozenset(partitions))
        self.sender.send(markers, lambda: True, lambda names: self.written.extend(sorted(names)))

    async def wait_for_written(self, count: int) -> None:
        while len(self.written) < count:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_server_error,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.cluster_authorization_failed,
    ],
)
def test_retriable_errors_are_retried(code: ErrorCode) -> None:
    async def work() -> None:
        stage = Stage()
        stage.leader.errors[PARTITIONS[1]] = [code, code]
        stage.send(*PARTITIONS)
        await stage.wait_for_written(3)
        assert stage.written == [PARTITIONS[0], PARTITIONS[2], PARTITIONS[1]]
        assert [len(request) for request in stage.leader.requests] == [3, 1, 1]

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced])
def test_markers_of_a_fenced_coordinator_are_not_retried(code: ErrorCode) -> None:
    async def work() -> None:
        stage = Stage()
        stage.leader.errors[PARTITIONS[1]] = [code]
        stage.send(*PARTITIONS)
        await stage.wait_for_written(2)
        await asyncio.sleep(0.2)
        assert stage.written == [PARTITIONS[0], PARTITIONS[2]]
        assert len(stage.leader.requests) == 1

    run(work())


def test_partitions_of_one_transaction_share_a_request_and_its_response() -> None:
    """They are retried at the same time, after different failures."""

    async def work() -> None:
        stage = Stage()
        stage.leader.may_respond.clear()
        stage.send(PARTITIONS[0], transactional_id="first", producer_id=6)
        await asyncio.sleep(0)
        stage.send(PARTITIONS[1])
        stage.send(PARTITIONS[2])
        stage.leader.may_respond.set()
        await stage.wait_for_written(3)
        await asyncio.sleep(0.2)
        assert stage.written == list(PARTITIONS)
        assert [len(request) for request in stage.leader.requests] == [1, 2]

    run(work())


def test_warning_is_logged_after_many_failed_attempts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(marker_sender, "BACKOFF_SECONDS_MAX", 0.001)

    async def work() -> None:
        stage = Stage()
        stage.leader.errors[PARTITIONS[0]] = [ErrorCode.unknown_server_error] * 65
        stage.send(PARTITIONS[0])
        await stage.wait_for_written(1)

    with caplog.at_level(logging.WARNING):
        run(work())
    assert [record.message for record in caplog.records] == [
        f"Transaction markers not written: transactional id x, partitions t-0, {count} attempts" for count in (30, 60)
    ]


def test_markers_for_partitions_led_here_are_written_in_the_next_turn_without_a_request() -> None:
    async def work() -> None:
        stage = Stage()
        stage.led_here.update(PARTITIONS)
        stage.send(*PARTITIONS)
        assert stage.written == []
        await asyncio.sleep(0)
        assert stage.written == list(PARTITIONS)
        assert stage.leader.requests == []

    run(work())


def test_markers_written_here_yield_to_other_callbacks_after_a_number_of_transactions() -> None:
    async def work() -> None:
        stage = Stage()
        stage.led_here.update(PARTITIONS)
        most = marker_sender.TRANSACTIONS_PER_TURN_MAX
        for number in range(most + 1):
            stage.send(PARTITIONS[0], producer_id=number)
        await asyncio.sleep(0)
        assert len(stage.written) == most
        await asyncio.sleep(0)
        assert len(stage.written) == most + 1

    run(work())


def test_internal_error_of_a_write_here_is_logged_and_the_marker_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        stage = Stage()
        stage.led_here.update(PARTITIONS)
        stage.failures_here = 2
        stage.send(PARTITIONS[0])
        await stage.wait_for_written(1)
        assert caplog.text.count("Cannot write transaction markers on this broker") == 2

    run(work())
