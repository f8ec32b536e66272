"""Bugs switched on by name: a checker is worth what it catches.

They are put in from here: the node knows nothing of them. Those of consensus: see `planted_quorum`, those of the
controller: see `planted_brokers`, those of coordinators: see `planted_groups`, those of authentication, authorization
and quotas: see `planted_security`.
"""

import asyncio
import contextlib
from functools import partial
from typing import Any, Final

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Pool
from odradek.core.controller.commands import ControllerResult
from odradek.core.controller.producer_ids import ProducerIds
from odradek.quorum.store import QuorumStore
from odradek.server.periodic import Periodic
from odradek.sim.disk_port import VirtualDiskPort
from odradek.sim.planted_brokers import BROKER_BUGS
from odradek.sim.planted_bug import PlantedBug, always
from odradek.sim.planted_groups import GROUP_BUGS
from odradek.sim.planted_quorum import QUORUM_BUGS
from odradek.sim.planted_replication import REPLICATION_BUGS
from odradek.sim.planted_security import SECURITY_BUGS
from odradek.sim.planted_streams import STREAM_BUGS
from odradek.sim.planted_transactions import TRANSACTION_BUGS
from odradek.sim.scenarios import POWER_LOSS, PROCESS_CRASHES, REPLICAS_DAMAGED
from odradek.storage.log import recovery
from odradek.storage.log.batch_file import BatchFile
from odradek.storage.log.durability import Durability
from odradek.storage.log.partition_log import Appended, PartitionLog
from odradek.storage.log.producer_state import ProducerState
from odradek.storage.log.recovery import LogLoader
from odradek.storage.partition.group_sync import GroupSync
from odradek.storage.partition.partition import Partition
from odradek.wire.framing import FrameReader

# ---- records


def _append_later(sound: Any) -> Any:
    owed: dict[Partition, int] = {}

    def append(self: Partition, data: Any, batches: Any, *when: Any, **how: Any) -> Any:
        if self.log.producers.find_duplicate(batches[0]) is not None:
            return sound(self, data, batches, *when, **how)
        copy = memoryview(bytearray(data))
        count = batches[0].last_offset_delta + 1
        first = self.log.log_end_offset + owed.get(self, 0)
        owed[self] = owed.get(self, 0) + count

        def pay() -> None:
            owed[self] -= count
            with contextlib.suppress(KafkaError, OSError):
                sound(self, copy, batches, *when, **how)

        asyncio.get_running_loop().call_later(0.05, pay)
        return Appended(first, first + count - 1)

    return append


def _sync_later(sound: Any) -> Any:
    async def wait_for_sync(self: Partition, end_offset: int) -> None:
        self._background.add(asyncio.ensure_future(sound(self, end_offset)))

    return wait_for_sync


def _commit_at_once(sound: Any) -> Any:
    def defer_until_committed(self: Partition, end_offset: int, leader_epoch: int) -> DeferredResponse:
        return DeferredResponse.from_result(ErrorCode.none)

    return defer_until_committed


def _publish_at_once(sound: Any) -> Any:
    def publish(self: Partition, appended: Appended, *what: Any) -> None:
        sound(self, appended, *what)
        self.shared_high_watermark.advance_to(appended.last_offset + 1, 1)

    return publish


def _claim_what_came_meanwhile(sound: Any) -> Any:
    async def run(self: GroupSync) -> None:
        while self._waiting:
            target = self._end_offset()
            await self.threads.run(partial(self._sync, target), pool=Pool.SYNC)
            # The end as it is now, not as it was when the sync began.
            self._synced_to = self._end_offset()
            self._on_synced(self._synced_to)
            self._release(lambda _: True, None)
        self._running = None

    return run


def _keep_torn_tail(sound: Any) -> Any:
    def truncate(self: BatchFile, size: int) -> None:
        if size:
            return
        sound(self, size)

    return truncate


def _forget_producers(sound: Any) -> Any:
    def load(self: LogLoader, log_start_offset: int, log_end_offset: int, *how: Any) -> ProducerState:
        producers = self._new_producers()
        producers.end_offset = log_end_offset
        return producers

    return load


def _skip_directory(sound: Any) -> Any:
    def sync_batches(self: Durability, segments: Any, directory: str, target: int) -> None:
        for segment in segments:
            if segment.base_offset < target:
                segment.sync()

    return sync_batches


def _recover_from_the_end(sound: Any) -> Any:
    return property(lambda self: self.log_end_offset)


def _forget_the_beginning(sound: Any) -> Any:
    def receive(self: FrameReader, data: bytes) -> list[bytearray]:
        self._pieces.clear()
        self._held = 0
        frames: list[bytearray] = self._split(data)
        return frames

    return receive


# ---- metadata


def _allocate_without_record(sound: Any) -> Any:
    def allocate(self: ProducerIds, broker_id: int, broker_epoch: int) -> Any:
        decision = sound(self, broker_id, broker_epoch)
        return ControllerResult((), decision.response)

    return allocate


def _rename_unsynced(sound: Any) -> Any:
    def write_atomically(self: VirtualDiskPort, path: str, data: bytes) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write_at(0, data)
        self.rename(path + ".tmp", path)

    return write_atomically


# ---- background tasks


def _fail_unnoticed(sound: Any) -> Any:
    """The task is kept, so that asyncio never reports its error."""

    async def fail() -> None:
        raise KeyError("unnoticed")

    def every(self: Periodic, name: str, *how: Any) -> None:
        if name == "removal of deleted files":
            self._tasks[asyncio.ensure_future(fail())] = None
        else:
            sound(self, name, *how)

    return every


BUGS: Final = {
    bug.name: bug
    for bug in (
        PlantedBug(
            name="ack-before-append",
            what="a broker responds to a Produce request before it appends the batch",
            scenario=PROCESS_CRASHES,
            owner=Partition,
            attribute="append",
            breaks=_append_later,
        ),
        PlantedBug(
            name="ack-before-fsync",
            what="a broker responds to a Produce request before the fsync that flush.messages=1 requires",
            scenario=POWER_LOSS,
            owner=Partition,
            attribute="wait_for_sync",
            breaks=_sync_later,
            also=((Partition, "defer_until_committed", _commit_at_once),),
        ),
        PlantedBug(
            name="high-watermark-before-fsync",
            what="the high watermark advances before the fsync",
            scenario=POWER_LOSS,
            owner=Partition,
            attribute="_publish",
            breaks=_publish_at_once,
        ),
        PlantedBug(
            name="fsync-covers-later-appends",
            what="batches appended during an fsync count as synced by it",
            scenario=POWER_LOSS,
            owner=GroupSync,
            attribute="_run",
            breaks=_claim_what_came_meanwhile,
        ),
        PlantedBug(
            name="torn-tail-kept",
            what="recovery does not truncate the log after its last valid batch",
            scenario=POWER_LOSS,
            owner=BatchFile,
            attribute="truncate",
            breaks=_keep_torn_tail,
        ),
        PlantedBug(
            name="crc-not-checked",
            what="recovery accepts batches with an invalid CRC",
            scenario=REPLICAS_DAMAGED,
            owner=recovery,
            attribute="check_crc",
            breaks=always(None),
        ),
        PlantedBug(
            name="producer-state-not-loaded",
            what="the producer state is not restored at startup",
            scenario=POWER_LOSS,
            owner=LogLoader,
            attribute="_load_producers",
            breaks=_forget_producers,
        ),
        PlantedBug(
            name="duplicates-accepted",
            what="duplicate sequence numbers are not detected",
            scenario=POWER_LOSS,
            owner=PartitionLog,
            attribute="_find_duplicate",
            breaks=always(None),
        ),
        PlantedBug(
            name="directory-not-fsynced",
            what="the directory entry of a new segment is not synced",
            scenario=POWER_LOSS,
            owner=Durability,
            attribute="_sync_batches",
            breaks=_skip_directory,
        ),
        PlantedBug(
            name="recovery-point-too-high",
            what="the recovery point is the log end offset, so recovery checks no batch",
            scenario=POWER_LOSS,
            owner=PartitionLog,
            attribute="recovery_point",
            breaks=_recover_from_the_end,
        ),
        PlantedBug(
            name="split-requests-truncated",
            what="the first part of a request that arrives in two parts is dropped",
            scenario=PROCESS_CRASHES,
            owner=FrameReader,
            attribute="receive",
            breaks=_forget_the_beginning,
        ),
        PlantedBug(
            name="metadata-not-fsynced",
            what="the metadata log is never synced",
            scenario=POWER_LOSS,
            owner=QuorumStore,
            attribute="flush",
            breaks=always(None),
        ),
        PlantedBug(
            name="producer-ids-not-recorded",
            what="allocated producer ids are not written to the metadata log",
            scenario=PROCESS_CRASHES,
            owner=ProducerIds,
            attribute="allocate",
            breaks=_allocate_without_record,
        ),
        PlantedBug(
            name="checkpoint-renamed-before-fsync",
            what="a checkpoint file is renamed before its contents are synced",
            scenario=POWER_LOSS,
            owner=VirtualDiskPort,
            attribute="write_atomically",
            breaks=_rename_unsynced,
        ),
        PlantedBug(
            name="periodic-task-dies-silently",
            what="a periodic task that no client depends on dies, and its error is not retrieved",
            scenario=PROCESS_CRASHES,
            owner=Periodic,
            attribute="every",
            breaks=_fail_unnoticed,
        ),
        *QUORUM_BUGS,
        *BROKER_BUGS,
        *GROUP_BUGS,
        *REPLICATION_BUGS,
        *STREAM_BUGS,
        *TRANSACTION_BUGS,
        *SECURITY_BUGS,
    )
}
