"""ISR proposals sent to the controller."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from odradek.base.background import FAULT
from odradek.base.errors import ErrorCode
from odradek.broker.replicas.isr_proposals import ALTER_PARTITION, IsrProposals
from odradek.host.clock import SystemClock
from odradek.wire.schemas import schema
from tests.unit.storage.partition.test_partition import Fixture
from tests.unit.storage.partition.test_roles import with_followers


class Stumbling:
    """A controller whose first request raises and whose later ones succeed."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def handle(self, api_key: int, version: int, request: Any) -> Any:
        self.requests.append(request)
        if len(self.requests) == 1:
            raise RuntimeError("an unexpected error")
        messages = schema(*ALTER_PARTITION)
        (topic,) = request.topics
        (proposed,) = topic.partitions
        return messages.new(
            "AlterPartitionResponse",
            throttle_time=timedelta(0),
            error_code=ErrorCode.none,
            topics=(
                messages.new(
                    "TopicData",
                    topic_id=topic.topic_id,
                    partitions=(
                        messages.new(
                            "PartitionData",
                            partition_index=0,
                            error_code=ErrorCode.none,
                            leader_id=1,
                            leader_epoch=proposed.leader_epoch,
                            isr=tuple(one.broker_id for one in proposed.new_isr_with_epochs),
                            leader_recovery_state=0,
                            partition_epoch=proposed.partition_epoch + 1,
                        ),
                    ),
                ),
            ),
        )


def test_unexpected_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a result, the partition could never propose an ISR change again."""
    faults: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        fixture = Fixture(tmp_path)
        replication = with_followers(fixture, 1, isr=(1, 2))
        fixture.partition.become_leader(1, 1, replication)
        fixture.append()
        replication.tick(now=1000.0)
        proposals = IsrProposals(Stumbling(), 1, lambda: 1, SystemClock())

        def fail(*_: object) -> None:
            raise AssertionError("unexpected")

        monkeypatch.setattr(type(replication), "on_proposal_response", fail)
        proposals.send_if_proposed(fixture.partition)
        async with asyncio.timeout(10):
            while not faults:
                await asyncio.sleep(0.001)
        proposals.stop()

    asyncio.run(scenario())
    assert [context[FAULT] for context in faults] == ["ISR proposals"]


def test_proposal_is_retried_after_a_controller_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition = fixture.partition
        replication = with_followers(fixture, 1, isr=(1, 2))
        partition.become_leader(1, 1, replication)
        fixture.append()
        replication.tick(now=1000.0)
        controller = Stumbling()
        proposals = IsrProposals(controller, 1, lambda: 1, SystemClock())
        proposals.send_if_proposed(partition)
        for _ in range(100):
            await asyncio.sleep(0.01)
            proposals.send_if_proposed(partition)
            if len(controller.requests) > 1:
                break
        await asyncio.sleep(0.01)
        assert len(controller.requests) == 2
        assert replication.isr == (1,)
        proposals.stop()

    asyncio.run(scenario())
