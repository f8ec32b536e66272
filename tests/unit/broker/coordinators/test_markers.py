"""Markers reach every partition, whatever its leader says meanwhile, and are not sent again without need."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.broker.coordinators import markers as markers_module
from odradek.broker.coordinators.broker_lanes import BrokerPeers
from odradek.broker.coordinators.markers import MarkerSender
from odradek.core.transactions.commands import Markers
from odradek.wire.schemas import schema
from tests.unit.broker.coordinators.tally import run

HERE, THERE = 1, 2
PARTITIONS = tuple(TopicPartition("t", index) for index in range(3))


class Leader:
    """A broker that leads all partitions, and says of each what the test wants it to say."""

    def __init__(self) -> None:
        self.says: dict[TopicPartition, list[ErrorCode]] = {}
        self.asked: list[list[tuple[int, TopicPartition]]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, broker_id: int, api_key: int, build: Callable[[Any], Any]) -> Any:
        messages = schema(api_key, 2)
        markers = [
            (marker.producer_id, TopicPartition(topic.name, index))
            for marker in build(messages).markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        self.asked.append(markers)
        await self.may_answer.wait()
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
                            partitions=[SimpleNamespace(partition_index=name.partition, error_code=self._answer(name))],
                        )
                        for name in names
                    ],
                )
                for producer_id, names in by_producer.items()
            ]
        )

    def _answer(self, name: TopicPartition) -> ErrorCode:
        said = self.says.get(name)
        return said.pop(0) if said else ErrorCode.none


class Stage:
    def __init__(self) -> None:
        self.leader = Leader()
        self.told: list[TopicPartition] = []
        partitions = {name.partition: SimpleNamespace(leader=THERE) for name in PARTITIONS}
        image = SimpleNamespace(topics_by_name={"t": SimpleNamespace(partitions=partitions)})
        self.sender = MarkerSender(
            HERE,
            cast(BrokerPeers, self.leader),
            image=lambda: cast(Any, image),
            random=random.Random(1),
            write_here=self._write_here,
        )

    async def _write_here(self, markers: Markers) -> Mapping[TopicPartition, ErrorCode]:
        raise AssertionError("nothing is led here")

    def send(self, *partitions: TopicPartition, transactional_id: str = "x", producer_id: int = 7) -> None:
        markers = Markers(transactional_id, producer_id, 1, 5, True, 2, frozenset(partitions))
        self.sender.send(markers, lambda: True, lambda names: self.told.extend(sorted(names)))

    async def all_told(self, count: int) -> None:
        while len(self.told) < count:
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
def test_whatever_may_pass_is_waited_for(code: ErrorCode) -> None:
    async def work() -> None:
        stage = Stage()
        stage.leader.says[PARTITIONS[1]] = [code, code]
        stage.send(*PARTITIONS)
        await stage.all_told(3)
        assert stage.told == [PARTITIONS[0], PARTITIONS[2], PARTITIONS[1]]
        assert [len(asked) for asked in stage.leader.asked] == [3, 1, 1]

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced])
def test_whoever_has_been_replaced_says_no_more(code: ErrorCode) -> None:
    async def work() -> None:
        stage = Stage()
        stage.leader.says[PARTITIONS[1]] = [code]
        stage.send(*PARTITIONS)
        await stage.all_told(2)
        await asyncio.sleep(0.2)
        assert stage.told == [PARTITIONS[0], PARTITIONS[2]]
        assert len(stage.leader.asked) == 1

    run(work())


def test_parts_of_one_transaction_that_go_together_are_answered_together() -> None:
    """They were tried again at the same time, having failed for different reasons."""

    async def work() -> None:
        stage = Stage()
        stage.leader.may_answer.clear()
        stage.send(PARTITIONS[0], transactional_id="first", producer_id=6)
        await asyncio.sleep(0)
        stage.send(PARTITIONS[1])
        stage.send(PARTITIONS[2])
        stage.leader.may_answer.set()
        await stage.all_told(3)
        await asyncio.sleep(0.2)
        assert stage.told == list(PARTITIONS)
        assert [len(asked) for asked in stage.leader.asked] == [1, 2]

    run(work())


def test_an_end_that_is_not_told_for_long_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(markers_module, "BACKOFF_SECONDS_MAX", 0.001)

    async def work() -> None:
        stage = Stage()
        stage.leader.says[PARTITIONS[0]] = [ErrorCode.unknown_server_error] * 65
        stage.send(PARTITIONS[0])
        await stage.all_told(1)

    with caplog.at_level(logging.WARNING):
        run(work())
    assert [record.message for record in caplog.records] == ["the end of transaction x is still to be told to t-0"] * 2
