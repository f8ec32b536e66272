"""Records the contents of replicas on disk during a run, whenever records are acknowledged.

The checkers evaluate them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.sim.checkers.partition_model import ClusterModel, PartitionModel
from odradek.sim.disk import FileNode
from odradek.sim.eligible_replicas import leaves_eligible_replica
from odradek.sim.history import Outcome, Send
from odradek.sim.metadata_disk import MetadataDisk
from odradek.sim.node_host import NodeHost
from odradek.sim.replica_history import CommittedRecord, Copies, IsrChange, MetadataEnd, ReplicaHistory, UncleanEnd
from odradek.sim.stored_log import CRC_COVERS_FROM, StoredBatch, StoredLog, stored_batch
from odradek.sim.triggers import SHRINK, Triggers
from odradek.sim.wire_names import Exchange
from odradek.sim.world import World
from odradek.wire.apis import ApiKey

_INTERVAL_SECONDS: Final = 0.01
_HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
_CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"


class Led(NamedTuple):
    """A partition with the names of its leader and of the other ISR members."""

    partition: TopicPartition
    leader: str
    in_sync: tuple[str, ...]


class ReplicaRecorder:
    def __init__(
        self,
        world: World,
        nodes: Sequence[NodeHost],
        partitions: Sequence[TopicPartition],
        *,
        is_synced: bool,
        triggers: Triggers | None = None,
    ) -> None:
        """`is_synced`: acknowledged records must be synced."""
        self._triggers: Final = triggers or Triggers()
        self._world: Final = world
        self._is_synced: Final = is_synced
        self._partitions: Final = tuple(partitions)
        self._brokers: Final = {node.planned.node_id: node for node in nodes if node.planned.is_broker}
        self.history: Final = ReplicaHistory()
        self._metadata: Final = [node.metadata_disk for node in nodes if node.planned.is_voter]
        self._logs: Final = {
            (broker_id, partition): [
                StoredLog(node.computer.disk, f"{log_dir}/{partition.topic}-{partition.partition}", stored_batch)
                for log_dir in node.config.log_dirs
            ]
            for broker_id, node in self._brokers.items()
            for partition in self._partitions
        }
        self._seen_end = MetadataEnd(-1, 0)
        world.network.watchers[ApiKey.ALTER_PARTITION] = self._on_isr_change
        for node in self._brokers.values():
            node.add_end_listener(lambda node=node: self._on_process_end(node))  # type: ignore[misc]

    # ---- during the run

    def on_acknowledged(self, send: Send) -> None:
        """A producer received an acknowledgement."""
        if send.outcome is Outcome.DONE:
            self._look_at(send.partition, is_thorough=False, acknowledged=send if self._is_synced else None)

    def _on_isr_change(self, exchange: Exchange, response: bytes | None) -> None:
        """Sees only requests to a controller in another process."""
        if response is None:
            return
        requested = {
            (topic.topic_id, one.partition_index): one
            for topic in exchange.read_request().topics
            for one in topic.partitions
        }
        for topic in exchange.read_response(response).topics:
            for result in topic.partitions:
                wanted = requested[topic.topic_id, result.partition_index]
                if result.error_code is ErrorCode.none and result.partition_epoch == wanted.partition_epoch + 1:
                    members = getattr(wanted, "new_isr_with_epochs", ())
                    change = IsrChange(
                        topic.topic_id,
                        result.partition_index,
                        result.partition_epoch,
                        tuple((member.broker_id, member.broker_epoch) for member in members),
                        self._world.now,
                    )
                    self.history.isr_changes.append(change)
                    if self._is_shrunk(change):
                        self._triggers.fire(SHRINK, exchange.requester)

    def _is_shrunk(self, change: IsrChange) -> bool:
        state = self._model().partitions.get((change.topic_id, change.partition))
        return state is not None and len(change.broker_epochs) < len(state.replicas)

    def record_periodically(self) -> None:
        """Records all replicas soon after the metadata has changed."""
        end = self._metadata_end()
        if end != self._seen_end:
            self._seen_end = end
            for partition in self._partitions:
                self._look_at(partition, is_thorough=False)
        self._world.scheduler.call_after(_INTERVAL_SECONDS, self.record_periodically)

    def _on_process_end(self, node: NodeHost) -> None:
        process = node.computer.process
        assert process is not None
        # Killed, or stopped because its only disk failed: its checkpoints are not current.
        if process.exit_code != 0 and not self._has_stopped_cleanly(node):
            end = UncleanEnd(node.planned.node_id, self._world.now, self._metadata_end())
            self.history.unclean_ends.append(end)
        self.record_all()

    def record_all(self) -> None:
        for partition in self._partitions:
            self._look_at(partition, is_thorough=True)

    def _look_at(self, partition: TopicPartition, *, is_thorough: bool, acknowledged: Send | None = None) -> None:
        logs = {broker_id: log for broker_id in self._brokers if (log := self._log(broker_id, partition))}
        marks = {broker_id: self._high_watermark(broker_id, partition) for broker_id in logs} if is_thorough else {}
        self.history.copies.append(
            Copies(
                seconds=self._world.now,
                partition=partition,
                metadata=self._metadata_end(),
                logs=logs,
                high_watermarks=marks,
                unsynced=None if acknowledged is None else (acknowledged, self._brokers_without(acknowledged)),
                is_thorough=is_thorough,
            )
        )

    def _brokers_without(self, send: Send) -> frozenset[int]:
        return frozenset(
            broker_id
            for broker_id in self._brokers
            if not any(_durably_has(log, send) for log in self._logs[broker_id, send.partition])
        )

    def may_crash(self, node: NodeHost) -> bool:
        """Checks the metadata of every voter, because records on one voter may never be committed."""
        return node.planned.node_id not in self._brokers or all(
            self._may_crash(node.planned.node_id, _model_of(disk)) for disk in self._metadata
        )

    def _may_crash(self, broker_id: int, model: ClusterModel) -> bool:
        doubtful = {broker_id}
        for end in self.history.unclean_ends:
            if not model.is_back(end):
                doubtful.add(end.broker_id)
        return leaves_eligible_replica(model, self._partitions, doubtful)

    def leaders(self) -> list[Led]:
        """The partitions that have a leader now."""
        model, names = self._model(), {broker_id: node.name for broker_id, node in self._brokers.items()}
        states = [(partition, model.partition(partition)) for partition in self._partitions]
        return [
            Led(partition, names[state.leader], tuple(names[one] for one in state.isr if one != state.leader))
            for partition, state in states
            if state is not None and state.leader in names
        ]

    def flip_bit(self, node: NodeHost, share: float) -> Iterator[str]:
        """Flips a bit that the CRC covers in the last segment of each log, and describes where."""
        for partition in self._partitions:
            for log in self._logs[node.planned.node_id, partition]:
                segments = log.segments()
                if segments and segments[-1].batches:
                    index = int(share * len(segments[-1].batches))
                    position, size = segments[-1].places[index]
                    batch = segments[-1].batches[index]
                    covered = size - CRC_COVERS_FROM
                    place = position + CRC_COVERS_FROM + int(share * 1000) % covered
                    log.files()[-1].sync()
                    log.files()[-1].flip_bit(place, int(share * 10_000) % 8)
                    yield f"has a bit flipped in {batch} of {partition}"

    # ---- after the run

    def record_metadata(self) -> None:
        farthest = self._farthest()
        self.history.metadata_batches = farthest.batches()
        self.history.metadata = tuple(_records(farthest))

    def find_difference(self, starts: Callable[[TopicPartition], int]) -> str | None:
        """The first difference between the replicas of a partition; None: they are equal.

        Below `starts` records were deleted, and may differ: like in Kafka, a follower does not compare its log with the
        leader's there.
        """
        model = self._model()
        for partition in self._partitions:
            state = model.partition(partition)
            if state is not None and (difference := self._difference(partition, state, starts(partition))) is not None:
                return f"{partition}: {difference}"
        return None

    def _difference(self, partition: TopicPartition, state: PartitionModel, start_offset: int) -> str | None:
        bytes_of: dict[int, bytes] = {}
        for broker_id in state.replicas:
            found = [log for log in self._logs[broker_id, partition] if log.exists]
            if len(found) != 1:
                return f"broker {broker_id} has {len(found)} copies"
            bytes_of[broker_id] = found[0].data_from(start_offset)
        first, *others = bytes_of.items()
        for broker_id, data in others:
            # One of them may have deleted whole segments already.
            if not data.endswith(first[1]) and not first[1].endswith(data):
                return f"brokers {first[0]} and {broker_id} have {len(first[1])} and {len(data)} bytes, not the same"
        return None

    # ---- disks

    def _metadata_end(self) -> MetadataEnd:
        last = self._farthest().last()
        return MetadataEnd(-1, 0) if last is None else MetadataEnd(last.epoch, last.last_offset + 1)

    def _farthest(self) -> MetadataDisk:
        def reach(disk: MetadataDisk) -> tuple[int, int]:
            last = disk.last()
            return (-1, -1) if last is None else (last.epoch, last.last_offset)

        return max(self._metadata, key=reach)

    def _model(self) -> ClusterModel:
        return _model_of(self._farthest())

    def _log(self, broker_id: int, partition: TopicPartition) -> tuple[StoredBatch, ...]:
        """During a log dir move there may be two logs for a moment."""
        found = (log.batches() for log in self._logs[broker_id, partition])
        return max(found, key=lambda batches: batches[-1].last_offset if batches else -1)

    def _high_watermark(self, broker_id: int, partition: TopicPartition) -> int:
        marks = [0]
        for data in self._files(self._brokers[broker_id], _HIGH_WATERMARKS):
            for line in data.decode().splitlines()[2:]:
                topic, index, offset = line.split()
                if (topic, int(index)) == partition:
                    marks.append(int(offset))
        return min(marks[1:], default=0)

    def _has_stopped_cleanly(self, node: NodeHost) -> bool:
        return any(True for _ in self._files(node, _CLEAN_SHUTDOWN))

    def _files(self, node: NodeHost, name: str) -> Iterator[bytes]:
        for log_dir in node.config.log_dirs:
            file = node.computer.disk.find(f"{log_dir}/{name}")
            if isinstance(file, FileNode):
                yield file.cached.read(0, file.cached.size)


def _durably_has(log: StoredLog[StoredBatch], send: Send) -> bool:
    found = log.durable_batch(send.offset + len(send.values))
    return found is not None and (found.base_offset, found.checksum) == (send.offset, send.checksum)


def _model_of(disk: MetadataDisk) -> ClusterModel:
    model = ClusterModel()
    for one in _records(disk):
        model.take(one)
    return model


def _records(disk: MetadataDisk) -> Iterator[CommittedRecord]:
    for batch, records in disk.records(0):
        for offset, record in enumerate(records, batch.base_offset):
            yield CommittedRecord(batch.epoch, offset, record)
