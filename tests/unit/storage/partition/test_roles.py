"""Roles change between appends, never during one: requests of an earlier role have no effect."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Pool
from odradek.broker.fetch_wait import FetchWait
from odradek.config.topic_config import TopicConfig
from odradek.core.replication.follower import FetchResponse, FollowerState
from odradek.core.replication.high_watermark import HighWatermark
from odradek.core.replication.leader import LeaderState
from odradek.records.batch import BatchHeader, parse_batches
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.storage.partition.partition import FollowerFetch, Partition
from tests.unit.broker.fake_broker import InlineExecutor
from tests.unit.storage.partition.test_partition import Fixture

T = TypeVar("T")


def batch(value: bytes, *, base_offset: int = 0, epoch: int = 0) -> tuple[bytearray, list[BatchHeader]]:
    record = Record(offset=0, timestamp=0, key=None, value=value, headers=())
    data = bytearray(build_batch([record], base_offset=base_offset, leader_epoch=epoch))
    return data, parse_batches(data)


def follower_state(partition: Partition, epoch: int) -> FollowerState:
    return FollowerState(
        leader_id=2, leader_epoch=epoch, high_watermark=partition.shared_high_watermark, backoff_max_seconds=1.0
    )


class Alive(NamedTuple):
    epoch: int = 1
    fenced: bool = False
    in_controlled_shutdown: bool = False


def with_followers(
    fixture: Fixture, epoch: int, *, isr: tuple[int, ...], min_isr: int = 1, alive: tuple[int, ...] = ()
) -> LeaderState:
    return LeaderState(
        broker_id=1,
        leader_epoch=epoch,
        partition_epoch=0,
        replicas=(1, 2, 3),
        isr=isr,
        min_isr=min_isr,
        epoch_start_offset=fixture.partition.log.log_end_offset,
        log_end_offset=fixture.partition.log.log_end_offset,
        high_watermark=fixture.partition.shared_high_watermark,
        lag_max_seconds=10.0,
        brokers=lambda broker_id: Alive() if broker_id in alive else None,
        now=0.0,
    )


def test_append_queued_in_an_ended_epoch_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition = fixture.partition
        data, batches = batch(b"in time")
        first = asyncio.ensure_future(partition.append_exclusively(memoryview(data), batches))
        await asyncio.sleep(0)
        assert partition.is_busy
        change = asyncio.ensure_future(
            partition.run_exclusively(
                lambda: None, lambda _: partition.become_follower(2, 1, follower_state(partition, 1))
            )
        )
        await asyncio.sleep(0)
        late, late_batches = batch(b"too late")
        second = asyncio.ensure_future(partition.append_exclusively(memoryview(late), late_batches))
        await asyncio.gather(first, change)
        with pytest.raises(KafkaError) as raised:
            await second
        assert raised.value.code is ErrorCode.not_leader_or_follower
        assert partition.log.log_end_offset == 1
        assert partition.log.epochs.latest_epoch == 0

    asyncio.run(scenario())


def test_batches_and_truncations_of_a_former_leader_are_ignored(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        fixture.append()
        partition = fixture.partition
        state = follower_state(partition, 1)
        partition.become_follower(2, 1, state)
        data, batches = batch(b"new", base_offset=1, epoch=1)
        assert await partition.replicate(1, bytes(data), batches)
        state.follow(3, 2)
        partition.become_follower(3, 2, state)
        data, batches = batch(b"stale", base_offset=2, epoch=1)
        assert not await partition.replicate(1, bytes(data), batches)
        assert not await partition.truncate(1, 0, fully=False)
        assert partition.log.log_end_offset == 2
        assert await partition.truncate(2, 1, fully=False)
        assert partition.log.log_end_offset == 1
        partition.become_leader(1, 3)
        assert not await partition.truncate(2, 0, fully=True)

    asyncio.run(scenario())


def test_pending_acks_all_fails_when_leadership_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition = fixture.partition
        partition.become_leader(1, 1, with_followers(fixture, 1, isr=(1, 2)))
        fixture.append()
        waiting = asyncio.ensure_future(partition.wait_for_commit(1, 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        partition.become_follower(2, 2, follower_state(partition, 2))
        assert await waiting is ErrorCode.not_leader_or_follower

    asyncio.run(scenario())


def test_fetch_from_a_follower_wakes_for_commits_and_new_epochs(tmp_path: Path) -> None:
    async def scenario() -> None:
        partition = Fixture(tmp_path).partition
        state = follower_state(partition, 1)
        partition.become_follower(2, 1, state)
        partition.check_replica(1)
        with pytest.raises(KafkaError):
            partition.check_leader(1)
        woken: list[str] = []
        FetchWait([partition], 1, lambda: woken.append("committed")).begin(10)
        data, batches = batch(b"new", epoch=1)
        await partition.replicate(1, bytes(data), batches)
        assert not woken
        state.on_append(partition.log, FetchResponse(high_watermark=1))
        assert woken == ["committed"]
        FetchWait([partition], 1, lambda: woken.append("epoch")).begin(10)
        state.follow(3, 2)
        partition.become_follower(3, 2, state)
        assert woken == ["committed", "epoch"]
        for epoch, code in ((1, ErrorCode.fenced_leader_epoch), (3, ErrorCode.unknown_leader_epoch)):
            with pytest.raises(KafkaError) as raised:
                partition.check_replica(epoch)
            assert raised.value.code is code

    asyncio.run(scenario())


def test_records_of_an_earlier_epoch_are_not_acknowledged(tmp_path: Path) -> None:
    """The next leader may have written other records at the same offsets."""

    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition = fixture.partition
        partition.become_leader(1, 1, with_followers(fixture, 1, isr=(1, 2)))
        fixture.append()
        for become in (
            lambda: partition.become_follower(2, 2, follower_state(partition, 2)),
            lambda: partition.become_leaderless(3),
            lambda: partition.become_leader(1, 4, with_followers(fixture, 4, isr=(1,))),
            lambda: partition.become_leader(1, 5),
        ):
            become()
            assert await partition.wait_for_commit(1, 1) is ErrorCode.not_leader_or_follower

    asyncio.run(scenario())


def test_delete_records_waits_for_all_live_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition = fixture.partition
        partition.become_leader(1, 1, with_followers(fixture, 1, isr=(1, 2), alive=(2,)))
        for _ in range(3):
            fixture.append()
        partition.on_follower_fetch(FollowerFetch(2, -1), 3, 0)
        partition.log.advance_log_start(2)
        first, all_of_it = (asyncio.ensure_future(partition.wait_for_deletion(offset)) for offset in (1, 2))
        await asyncio.sleep(0)
        assert not first.done()
        partition.on_follower_fetch(FollowerFetch(2, -1), 3, 1)
        assert await first == 1
        assert not all_of_it.done()
        partition.become_follower(2, 2, follower_state(partition, 2))
        with pytest.raises(KafkaError) as raised:
            await all_of_it
        assert raised.value.code is ErrorCode.not_leader_or_follower

    asyncio.run(scenario())


def test_acks_all_completes_when_the_isr_has_the_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        fixture = Fixture(tmp_path)
        partition = fixture.partition
        replication = with_followers(fixture, 1, isr=(1, 2))
        partition.become_leader(1, 1, replication)
        fixture.append()
        fixture.append()
        first, both = (asyncio.ensure_future(partition.wait_for_commit(end, 1)) for end in (1, 2))
        await asyncio.sleep(0)
        replication.on_fetch(2, -1, 1, 0, now=1.0)
        assert await first is ErrorCode.none
        assert not both.done()
        assert partition.high_watermark == 1
        replication.on_fetch(2, -1, 2, 0, now=2.0)
        assert await both is ErrorCode.none

    asyncio.run(scenario())


def test_truncated_records_are_not_committed_for_the_next_leader(tmp_path: Path) -> None:
    """The role may change before the fetcher that requested the truncation resumes."""

    async def scenario() -> None:
        fixture = Fixture(tmp_path, executor=InlineExecutor())
        partition = fixture.partition
        for _ in range(3):
            fixture.append()
        state = follower_state(partition, 1)
        partition.become_follower(2, 1, state)
        truncation = asyncio.ensure_future(partition.truncate(1, 1, fully=False))
        change = asyncio.ensure_future(
            partition.run_exclusively(
                lambda: None, lambda _: partition.become_leader(1, 2, with_followers(fixture, 2, isr=(1, 2)))
            )
        )
        assert await truncation
        await change
        assert (partition.high_watermark, state.high_watermark) == (1, 1)
        fixture.append()
        assert partition.high_watermark == 1

    asyncio.run(scenario())


def test_pending_commit_completes_after_flush_messages_changes(tmp_path: Path) -> None:
    """flush.messages is raised while the sync is pending."""

    async def scenario() -> None:
        fixture = Fixture(tmp_path, flush_messages="1")
        partition = fixture.partition
        partition.become_leader(1, 1, with_followers(fixture, 1, isr=(1, 2)))
        fixture.append()
        partition.sync_if_needed()
        partition.on_follower_fetch(FollowerFetch(2, -1), 1, 0)
        waiting = asyncio.ensure_future(partition.wait_for_commit(1, 1))
        partition.update_config(TopicConfig.resolve({"flush.messages": "1000"}))
        assert await asyncio.wait_for(waiting, 20) is ErrorCode.none

    asyncio.run(scenario())


def test_append_that_completes_while_the_broker_stops_is_not_committed(tmp_path: Path) -> None:
    """Found by the simulator (replicas-crash, seed 40232): with a slow disk the broker checkpointed a high watermark
    that no other replica had reached."""

    class StopsMeanwhile(InlineExecutor):
        async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
            done = work()
            fixture.partition.withdraw(ErrorCode.not_leader_or_follower)
            return done

    fixture = Fixture(tmp_path, executor=StopsMeanwhile())
    fixture.partition.become_leader(1, 1, with_followers(fixture, 1, isr=(1, 2, 3)))
    data, batches = batch(b"uncommitted")
    asyncio.run(fixture.partition.append_exclusively(memoryview(data), batches))
    assert fixture.partition.log.log_end_offset == 1
    assert fixture.partition.high_watermark == 0


def test_leader_epoch_of_a_partition_never_decreases(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, executor=InlineExecutor())
    fixture.partition.become_leader(1, 3)
    with pytest.raises(AssertionError, match="leader epoch decreased from 3 to 2"):
        fixture.partition.become_leaderless(2)


def test_high_watermark_has_one_owner(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, executor=InlineExecutor())
    other = FollowerState(leader_id=2, leader_epoch=1, high_watermark=HighWatermark(0), backoff_max_seconds=1.0)
    with pytest.raises(AssertionError, match="two owners of one high watermark"):
        fixture.partition.become_follower(2, 1, other)


def test_high_watermark_stays_within_the_log(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, executor=InlineExecutor())
    with pytest.raises(AssertionError, match="high watermark 1 is outside the log 0 to 0"):
        fixture.partition.shared_high_watermark.advance_to(1)
