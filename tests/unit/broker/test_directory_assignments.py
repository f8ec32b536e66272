import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.broker import directory_assignments
from odradek.broker.directory_assignments import DirectoryAssignments
from odradek.wire.schemas import schema

FIRST, SECOND = UUID(int=1001), UUID(int=1002)


class Controller:
    """Accepts every assignment except those of rejected partitions."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.refused: dict[int, ErrorCode] = {}
        self.errors = [ErrorCode.none]

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        # The request has to be encodable.
        messages = schema(api_key, version)
        assert messages.write(request)
        self.requests.append(request)
        await asyncio.sleep(0)
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        directories = tuple(
            messages.new(
                "DirectoryData", id_=one.id_, topics=tuple(self._topic(messages, topic) for topic in one.topics)
            )
            for one in request.directories
        )
        return messages.new(
            "AssignReplicasToDirsResponse", throttle_time=timedelta(0), error_code=error, directories=directories
        )

    def _topic(self, messages: Any, topic: Any) -> Any:
        partitions = tuple(
            messages.new(
                "PartitionData",
                partition_index=one.partition_index,
                error_code=self.refused.get(one.partition_index, ErrorCode.none),
            )
            for one in topic.partitions
        )
        return messages.new("TopicData", topic_id=topic.topic_id, partitions=partitions)

    def sent(self) -> list[list[tuple[UUID, UUID, tuple[int, ...]]]]:
        return [
            [
                (one.id_, topic.topic_id, tuple(partition.partition_index for partition in topic.partitions))
                for one in request.directories
                for topic in one.topics
            ]
            for request in self.requests
        ]


def partition(index: int, topic: int = 7) -> Any:
    name, topic_id = replica(index, topic)
    return SimpleNamespace(name=name, topic_id=topic_id)


def replica(index: int, topic: int = 7) -> tuple[TopicPartition, UUID]:
    return TopicPartition(f"topic-{topic}", index), UUID(int=topic)


def assignments(controller: Controller) -> DirectoryAssignments:
    return DirectoryAssignments(controller, 1, lambda: 42)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_single_assignment() -> None:
    controller = Controller()
    asyncio.run(assignments(controller).assign(partition(3), FIRST))
    assert controller.sent() == [[(FIRST, UUID(int=7), (3,))]]
    assert (controller.requests[0].broker_id, controller.requests[0].broker_epoch) == (1, 42)


@pytest.mark.parametrize("whole", [True, False])
def test_rejected_assignment_raises(whole: bool) -> None:
    controller = Controller()
    if whole:
        controller.errors = [ErrorCode.stale_broker_epoch]
    else:
        controller.refused[3] = ErrorCode.unknown_topic_id
    with pytest.raises(KafkaError) as refused:
        asyncio.run(assignments(controller).assign(partition(3), FIRST))
    assert refused.value.code is (ErrorCode.stale_broker_epoch if whole else ErrorCode.unknown_topic_id)


def test_reports_share_one_request() -> None:
    async def run() -> list[Any]:
        controller = Controller()
        reporter = assignments(controller)
        for index in range(3):
            reporter.report(*replica(index), FIRST)
        reporter.report(*replica(0, topic=8), SECOND)
        await settled()
        return controller.sent()

    assert asyncio.run(run()) == [[(FIRST, UUID(int=7), (0, 1, 2)), (SECOND, UUID(int=8), (0,))]]


def test_later_report_replaces_an_earlier_one() -> None:
    async def run() -> list[Any]:
        controller = Controller()
        reporter = assignments(controller)
        reporter.report(*replica(0), FIRST)
        await asyncio.sleep(0)
        reporter.report(*replica(0), SECOND)
        await settled()
        return controller.sent()

    assert asyncio.run(run())[-1] == [(SECOND, UUID(int=7), (0,))]


def test_reports_are_repeated_until_the_broker_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "RETRY_SECONDS", 0)

    async def run() -> Controller:
        controller = Controller()
        controller.errors = [ErrorCode.stale_broker_epoch, ErrorCode.stale_broker_epoch, ErrorCode.none]
        reporter = assignments(controller)
        reporter.report(*replica(0), FIRST)
        await settled()
        return controller

    assert len(asyncio.run(run()).requests) == 3


def test_rejected_partition_is_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> Controller:
        controller = Controller()
        controller.refused[1] = ErrorCode.unknown_topic_id
        reporter = assignments(controller)
        reporter.report(*replica(0), FIRST)
        reporter.report(*replica(1), FIRST)
        await settled()
        return controller

    assert len(asyncio.run(run()).requests) == 1
    assert "topic-7-1" in caplog.text


def test_many_partitions_need_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "PARTITIONS_PER_REQUEST_MAX", 2)

    async def run() -> list[Any]:
        controller = Controller()
        reporter = assignments(controller)
        for index in range(5):
            reporter.report(*replica(index), FIRST)
        await settled()
        return [sum(len(indexes) for _, _, indexes in request) for request in controller.sent()]

    assert asyncio.run(run()) == [2, 2, 1]


def test_reports_are_repeated_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory_assignments, "RETRY_SECONDS", 0)

    async def run() -> list[Any]:
        controller = Controller()
        reporter = assignments(controller)
        sound = reporter._send

        async def fail_once(batch: Any) -> Any:
            monkeypatch.setattr(reporter, "_send", sound)
            raise KeyError("unexpected")

        monkeypatch.setattr(reporter, "_send", fail_once)
        reporter.report(*replica(0), FIRST)
        await settled()
        return controller.sent()

    assert asyncio.run(run()) == [[(FIRST, UUID(int=7), (0,))]]
    assert "KeyError: 'unexpected'" in caplog.text
