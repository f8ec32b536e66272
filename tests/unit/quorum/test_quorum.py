import asyncio
import errno
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ports import Pool
from odradek.core.metadata.apply import ImageDelta
from odradek.core.metadata.batches import build_metadata_batch
from odradek.core.metadata.image import ClusterImage
from odradek.core.metadata.records import BeginTransactionRecord, FeatureLevelRecord
from odradek.core.metadata.snapshot import SnapshotId, parse_file_name
from odradek.core.raft.batch import Batch
from odradek.core.raft.messages import FetchRequest, FetchSnapshotRequest
from odradek.core.raft.voter_set import ReplicaKey
from odradek.quorum import wire
from odradek.quorum.quorum import Quorum, QuorumError
from odradek.quorum.store import QuorumStore
from odradek.wire.apis import CONTROLLER_APIS, ApiKey
from odradek.wire.schemas import schema
from tests.unit.quorum.quorum_host import CLUSTER_ID, Host, create_topics, handle, register
from tests.unit.storage.log.write_back import WriteBackDisk


@pytest.fixture(params=[True, False], ids=["standalone", "fixed voters"])
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Host:
    return Host(tmp_path, is_standalone=request.param)


def test_new_cluster_starts_with_the_bootstrap_records(host: Host) -> None:
    async def scenario(quorum: Quorum) -> None:
        image = quorum.image
        assert image.features.metadata_version == 30
        assert image.features.level("eligible.leader.replicas.version") == 1
        assert image.default_broker_config() == {"min.insync.replicas": "1"}
        assert image.features.kraft_version == (0 if host.config.controller_quorum_voters else 1)
        assert (quorum.driver.epoch, image.epoch) == (1, 1)
        await quorum.stop()

    host.run(scenario)


def test_acknowledged_changes_survive_restarts(host: Host) -> None:
    async def first(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        response = await create_topics(quorum, "orders", partitions=3)
        assert response.topics[0].error_code is ErrorCode.none
        await quorum.stop()

    host.run(first)
    for restart in range(3):

        async def again(quorum: Quorum, epoch: int = restart + 2) -> ClusterImage:
            assert quorum.driver.epoch == epoch
            await quorum.stop()
            return quorum.image

        image = host.run(again)
        assert len(image.topics_by_name["orders"].partitions) == 3
        assert image.brokers[1].directories == (host.directory_id,)


def test_broker_registers_at_once_after_kill_9(host: Host) -> None:
    async def first(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        await create_topics(quorum, "orders")
        # No close: the process is gone.

    async def second(quorum: Quorum) -> None:
        assert quorum.image.topics_by_name["orders"].partitions[0].leader == 1
        await register(quorum, host.directory_id, incarnation=2)
        partition = quorum.image.topics_by_name["orders"].partitions[0]
        assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 2)

    host.run(first)
    host.run(second)


def test_torn_log_tail_loses_only_unacknowledged_changes(tmp_path: Path) -> None:
    host = Host(tmp_path)
    sizes: dict[int, set[str]] = {}
    log = host.metadata / "00000000000000000000.log"

    async def scenario(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        sizes[log.stat().st_size] = set()
        for name in ("first", "second"):
            await create_topics(quorum, name)
            sizes[log.stat().st_size] = set(quorum.image.topics_by_name)

    host.run(scenario)
    whole = log.read_bytes()
    start = min(sizes)
    for cut in range(start, len(whole), 7):
        torn = Host(tmp_path / f"cut-{cut}")
        shutil.rmtree(torn.directory)
        shutil.copytree(host.directory, torn.directory)
        (torn.metadata / log.name).write_bytes(whole[:cut])
        torn.directory_id = host.directory_id

        async def look(quorum: Quorum) -> set[str]:
            return set(quorum.image.topics_by_name)

        assert torn.run(look) == sizes[max(size for size in sizes if size <= cut)]


def test_subscribers_receive_changes_in_order_before_the_response(host: Host) -> None:
    changes: list[tuple[int, tuple[str, ...]]] = []

    async def subscriber(image: ClusterImage, delta: ImageDelta) -> None:
        await asyncio.sleep(0)
        changes.append((image.offset, tuple(topic.name for topic in delta.topics_created)))

    async def scenario(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        quorum.subscribe(subscriber)
        names = [f"topic-{number}" for number in range(20)]

        async def create(name: str) -> None:
            await create_topics(quorum, name)
            assert any(name in created for _, created in changes)
            assert name in quorum.image.topics_by_name

        await asyncio.gather(*map(create, names))
        assert [name for _, created in changes for name in created] == names
        assert [offset for offset, _ in changes] == sorted(offset for offset, _ in changes)

    host.run(scenario)


def test_one_sync_covers_all_pending_appends(host: Host) -> None:
    async def scenario(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        before = host.executor.runs
        await asyncio.gather(*(create_topics(quorum, f"topic-{number}") for number in range(100)))
        assert host.executor.runs - before <= 3

    host.run(scenario)


def test_controller_activation_waits_for_no_other_kind_of_work(host: Host) -> None:
    host.executor.busy = set(Pool) - {Pool.CONTROLLER}

    quorum = asyncio.run(asyncio.wait_for(host.open(), 30))
    assert quorum.image.features.metadata_version > 0


def test_error_response_waits_for_the_records_it_is_based_on(host: Host) -> None:
    async def scenario(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        order: list[ErrorCode] = []

        async def create() -> None:
            order.append((await create_topics(quorum, "orders")).topics[0].error_code)

        await asyncio.gather(create(), create())
        assert order == [ErrorCode.none, ErrorCode.topic_already_exists]

    host.run(scenario)


def test_after_a_failed_sync_nothing_is_acknowledged(host: Host) -> None:
    def no_space() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        host.executor.before = no_space
        responses = await asyncio.gather(*(create_topics(quorum, name) for name in ("a", "b")))
        assert [response.topics[0].error_code for response in responses] == [ErrorCode.kafka_storage_error] * 2
        assert quorum.failed.result().errno == errno.ENOSPC
        host.executor.before = lambda: None
        later = await create_topics(quorum, "c")
        assert later.topics[0].error_code is ErrorCode.kafka_storage_error
        assert len(quorum.image.topics_by_name) == 0

    host.run(scenario)


class TestSnapshots:
    def test_snapshot_is_due_by_bytes(self, tmp_path: Path) -> None:
        host = Host(tmp_path, metadata_log_max_record_bytes_between_snapshots="2000")

        async def scenario(quorum: Quorum) -> ClusterImage:
            await register(quorum, host.directory_id)
            for number in range(40):
                await create_topics(quorum, f"topic-{number}")
            await quorum.maintain()
            await quorum.stop()
            return quorum.image

        image = host.run(scenario)
        assert len(list(host.metadata.glob("*.checkpoint"))) > 2
        restarted = host.run(lambda quorum: _image_of(quorum))
        assert set(restarted.topics_by_name) == set(image.topics_by_name)
        assert restarted.brokers == image.brokers

    def test_snapshot_is_due_by_time_after_a_change(self, tmp_path: Path) -> None:
        host = Host(tmp_path, metadata_log_max_snapshot_interval_ms="1000")

        async def scenario(quorum: Quorum) -> list[int]:
            counts = []
            for _ in range(3):
                host.clock.now_ms += 1001
                await quorum.maintain()
                counts.append(len(list(host.metadata.glob("*.checkpoint"))))
            return counts

        assert host.run(scenario) == [2, 2, 2]

    def test_snapshot_replaces_the_deleted_log(self, tmp_path: Path) -> None:
        host = Host(
            tmp_path,
            metadata_log_max_record_bytes_between_snapshots="1000",
            metadata_max_retention_ms="10",
            internal_metadata_log_segment_bytes="2000",
        )

        async def scenario(quorum: Quorum) -> ClusterImage:
            await register(quorum, host.directory_id)
            for number in range(60):
                host.clock.now_ms += 100
                await create_topics(quorum, f"topic-{number}")
                await quorum.maintain()
            host.clock.now_ms += 100_000
            await quorum.maintain()
            await quorum.stop()
            return quorum.image

        image = host.run(scenario)
        assert len(list(host.metadata.glob("*.checkpoint"))) <= 2
        assert min(int(file.stem) for file in host.metadata.glob("*.log")) > 0
        restarted = host.run(lambda quorum: _image_of(quorum))
        assert set(restarted.topics_by_name) == set(image.topics_by_name)
        assert restarted.features == image.features

    def test_log_before_its_snapshot_restarts_after_it(self, tmp_path: Path) -> None:
        host = Host(tmp_path, metadata_log_max_snapshot_interval_ms="1000")

        async def scenario(quorum: Quorum) -> int:
            await register(quorum, host.directory_id)
            await create_topics(quorum, "orders")
            host.clock.now_ms += 1001
            await quorum.maintain()
            await quorum.stop()
            return quorum.image.offset

        offset = host.run(scenario)
        for file in host.metadata.glob("0*.*"):
            if file.suffix != ".checkpoint":
                file.unlink()
        restarted = host.run(lambda quorum: _image_of(quorum))
        assert "orders" in restarted.topics_by_name
        assert restarted.offset > offset

    def test_unfinished_snapshots_are_deleted(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        for mark in ("part", "tmp", "deleted"):
            (host.metadata / f"00000000000000000042-0000000007.checkpoint.{mark}").write_bytes(b"half")
        host.run(_image_of)
        assert [file.name for file in host.metadata.glob("*42*")] == []


async def _image_of(quorum: Quorum) -> ClusterImage:
    await quorum.stop()
    return quorum.image


class TestInvalidFiles:
    def test_only_voter_with_another_directory_cannot_start(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        host.directory_id = UUID(int=77)
        with pytest.raises(QuorumError, match="another directory ID"):
            host.run(_image_of)

    def test_broken_snapshot_prevents_the_start(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        snapshot = next(host.metadata.glob("*.checkpoint"))
        snapshot.chmod(0o600)
        snapshot.write_bytes(snapshot.read_bytes()[:-1])
        with pytest.raises(QuorumError, match="Cannot read the metadata log"):
            host.run(_image_of)

    def test_broken_quorum_state_prevents_the_start(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        (host.metadata / "quorum-state").write_text("{")
        with pytest.raises(QuorumError, match="quorum-state"):
            host.run(_image_of)

    def test_missing_bootstrap_file_means_default_levels(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        (host.directory / "bootstrap.checkpoint").unlink()
        assert host.run(_image_of).features.level("transaction.version") == 2


def test_open_metadata_transaction_is_aborted(tmp_path: Path) -> None:
    """As when a controller dies while it writes its bootstrap records in several batches."""
    host = Host(tmp_path)
    records = [BeginTransactionRecord(name="x"), FeatureLevelRecord(name="metadata.version", feature_level=29)]
    data = build_metadata_batch(records, metadata_version=29, timestamp_ms=1)
    store = QuorumStore.open(host.disk, host.config, now_ms=1)
    store.append(store.prepare([Batch(base_offset=0, last_offset=1, epoch=1, data=data)], now_ms=1), now_ms=1)
    store.close()
    for _ in range(2):
        image = host.run(_image_of)
        assert image.features.metadata_version == 30


def test_kraft_version_can_be_upgraded(tmp_path: Path) -> None:
    host = Host(tmp_path, is_standalone=False)
    messages = schema(ApiKey.UPDATE_FEATURES, 2)

    async def scenario(quorum: Quorum) -> None:
        assert quorum.image.features.kraft_version == 0
        update = messages.new("FeatureUpdateKey", feature="kraft.version", max_version_level=1, upgrade_type=1)
        for validate_only in (True, False):
            request = messages.new("UpdateFeaturesRequest", feature_updates=(update,), validate_only=validate_only)
            assert (await handle(quorum, ApiKey.UPDATE_FEATURES, 2, request)).error_code is ErrorCode.none
            assert quorum.image.features.kraft_version == (0 if validate_only else 1)
        await quorum.stop()

    host.run(scenario)
    assert host.run(_image_of).features.kraft_version == 1


class TestDiskErrors:
    """Pending requests fail, and the node can be stopped."""

    def test_disk_error_during_append_fails_the_quorum(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        host = Host(tmp_path)

        async def scenario(quorum: Quorum) -> None:
            await register(quorum, host.directory_id)
            monkeypatch.setattr(QuorumStore, "append", broken)
            response = await asyncio.wait_for(create_topics(quorum, "a"), 20)
            assert response.topics[0].error_code is ErrorCode.kafka_storage_error
            assert quorum.failed.result().errno == errno.EIO
            await asyncio.wait_for(quorum.stop(), 20)

        host.run(scenario)

    def test_disk_error_during_cleaning_fails_the_quorum(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scenario(quorum: Quorum) -> None:
            monkeypatch.setattr(QuorumStore, "clean", broken)
            await asyncio.wait_for(quorum.maintain(), 20)
            assert quorum.failed.result().errno == errno.EIO
            await asyncio.wait_for(quorum.stop(), 20)

        Host(tmp_path).run(scenario)

    def test_disk_error_during_a_fetch_fails_the_quorum(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scenario(quorum: Quorum) -> None:
            monkeypatch.setattr(QuorumStore, "read_cached", broken)
            await asyncio.wait([asyncio.ensure_future(_request(quorum, ApiKey.FETCH, _fetch(quorum)))], timeout=20)
            assert quorum.failed.result().errno == errno.EIO
            await asyncio.wait_for(quorum.stop(), 20)

        Host(tmp_path).run(scenario)


def test_snapshot_deleted_during_a_fetch_is_not_found(tmp_path: Path) -> None:
    host = Host(tmp_path, metadata_log_max_snapshot_interval_ms="1000")
    forgetful = Host(tmp_path, metadata_max_retention_ms="10").config

    async def scenario(quorum: Quorum) -> None:
        await register(quorum, host.directory_id)
        for number in range(2):
            await create_topics(quorum, f"topic-{number}")
            host.clock.now_ms += 1001
            await quorum.maintain()
        snapshots = sorted(filter(None, (parse_file_name(file.name) for file in host.metadata.iterdir())))
        removed = next(one for one in snapshots if one.end_offset > 0)
        request = FetchSnapshotRequest(
            cluster_id=CLUSTER_ID,
            replica=ReplicaKey(2, None),
            current_leader_epoch=quorum.driver.epoch,
            snapshot_id=removed,
            position=0,
            max_bytes=1000,
        )
        cleaning = asyncio.ensure_future(quorum.driver.clean(forgetful, host.clock.now_ms + 100_000))
        # As a task, which starts after the cleaning: since Python 3.12 `wait_for` runs a coroutine at once.
        fetching = asyncio.ensure_future(_request(quorum, ApiKey.FETCH_SNAPSHOT, request))
        message = await asyncio.wait_for(fetching, 20)
        await cleaning
        assert not (host.metadata / removed.file_name).exists()
        response = wire.read_response(ApiKey.FETCH_SNAPSHOT, message, listener_name="CONTROLLER")
        assert response.error is ErrorCode.snapshot_not_found
        assert not quorum.failed.done()
        await quorum.stop()

    host.run(scenario)


def broken(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def _fetch(quorum: Quorum) -> FetchRequest:
    return FetchRequest(
        cluster_id=CLUSTER_ID,
        replica=ReplicaKey(2, None),
        current_leader_epoch=quorum.driver.epoch,
        last_fetched_epoch=0,
        fetch_offset=0,
        max_wait_ms=0,
        max_bytes=1000,
        high_watermark=0,
    )


async def _request(quorum: Quorum, api_key: int, message: Any) -> Any:
    version = CONTROLLER_APIS[api_key].high
    request = wire.write_request(schema(api_key, version), message)
    return await quorum.driver.handle(api_key, version, request, "CONTROLLER")


def test_failed_write_back_of_a_downloaded_snapshot_is_reported(tmp_path: Path) -> None:
    host = Host(tmp_path)
    snapshot = next(host.metadata.glob("*.checkpoint"))
    data = snapshot.read_bytes()
    disk = WriteBackDisk()
    store = QuorumStore.open(disk, host.config, now_ms=1)
    snapshot_id = SnapshotId(1000, 7)
    for position in range(0, len(data), 100):
        store.write_piece(snapshot_id, position, data[position : position + 100])
    disk.fail_write_back(".part")
    with pytest.raises(OSError, match="write-back failed"):
        store.load_pieces(snapshot_id, now_ms=1)
