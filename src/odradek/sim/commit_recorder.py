"""Records the high watermarks that leaders send: each time with the contents of the voters' disks, and each committed
batch once, in the order of the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from odradek.core.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from odradek.sim.clients.topic_observer import CONFIG
from odradek.sim.metadata_disk import MetadataDisk, Topics
from odradek.sim.quorum_history import (
    Appended,
    BrokerChange,
    CommittedBatch,
    HighWatermarkSent,
    LeaderLog,
    QuorumHistory,
    TopicState,
)
from odradek.sim.world import World

_SECURITY: Final = (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    UserScramCredentialRecord,
    RemoveUserScramCredentialRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
)


class CommitRecorder:
    def __init__(
        self,
        world: World,
        disks: Mapping[str, MetadataDisk],
        voters: Mapping[int, str],
        history: QuorumHistory,
    ) -> None:
        """`voters`: id -> name of the initial voters."""
        self._world: Final = world
        self._disks: Final = disks
        self._voters: Final = dict(voters)
        self._history: Final = history
        self._sent: Final[dict[tuple[str, int, str], int]] = {}
        self._first_appended: Final[dict[tuple[int, int], Appended]] = {}
        self._end = 0
        self._topics = Topics()

    def on_append(self, appended: Appended) -> None:
        batch = appended.batch
        self._first_appended.setdefault((batch.epoch, batch.base_offset), appended)
        if batch.voter_ids is not None and batch.voter_ids != self._voters.keys():
            self._history.has_fixed_voters = False

    def on_high_watermark(self, listener: str, leader: str, epoch: int, offset: int) -> None:
        """A leader sends its high watermark to another node."""
        before = self._sent.get((leader, epoch, listener))
        snapshot_end = max(self._disks[leader].durable_snapshots(), default=(0, 0))[0]
        if before == offset and snapshot_end <= offset:
            return
        self._sent[leader, epoch, listener] = offset
        now = self._world.now
        if not any((log.leader, log.epoch) == (leader, epoch) for log in self._history.leader_logs):
            batches = self._disks[leader].batches()
            start = batches[0].base_offset if batches else offset
            log = LeaderLog(leader=leader, epoch=epoch, seconds=now, start_offset=start, batches=batches)
            self._history.leader_logs.append(log)
        voters = self._voter_sets(leader)
        self._history.high_watermarks.append(
            HighWatermarkSent(
                leader=leader,
                listener=listener,
                epoch=epoch,
                offset=offset,
                seconds=now,
                voters=voters[0],
                former_voters=voters[-1],
                holders={
                    name: batch
                    for name, disk in self._disks.items()
                    if (batch := disk.durable_batch(offset)) is not None
                },
                snapshot_end=snapshot_end,
                is_snapshot_held=self._is_held(snapshot_end, voters),
                covering=frozenset(
                    name
                    for name, disk in self._disks.items()
                    if any(end >= offset for end, _ in disk.durable_snapshots())
                ),
            )
        )
        if offset > self._end:
            self._record_committed(leader, epoch, offset)

    def _is_held(self, end_offset: int, voter_sets: Sequence[frozenset[str]]) -> bool:
        reaching = {name for name, disk in self._disks.items() if disk.durable_end().offset >= end_offset}
        return any(len(reaching & voters) > len(voters) // 2 for voters in voter_sets)

    def _voter_sets(self, leader: str) -> list[frozenset[str]]:
        """The current and the previous voter set in the leader's log."""
        sets = [frozenset(self._voters.values())]
        if not self._history.has_fixed_voters:
            for batch in self._disks[leader].batches():
                if batch.voter_ids is not None:
                    sets.append(frozenset(self._voters[voter_id] for voter_id in batch.voter_ids))
        return sets[:-3:-1]

    def _record_committed(self, leader: str, epoch: int, offset: int) -> None:
        history, now = self._history, self._world.now
        for batch, records in self._disks[leader].records(self._end):
            if batch.last_offset >= offset:
                break
            if batch.base_offset > self._end:
                # Earlier records exist only in a snapshot.
                history.is_complete = False
            appended = self._first_appended.get((batch.epoch, batch.base_offset))
            history.committed.append(
                CommittedBatch(
                    batch=batch,
                    leader=leader if appended is None else appended.node,
                    appended_seconds=now if appended is None else appended.seconds,
                    seen_seconds=now,
                    committed_in=epoch,
                    brokers=tuple(_broker_changes(records)),
                    topics=self._topic_states(records),
                    security=tuple(record for record in records if isinstance(record, _SECURITY)),
                )
            )
            self._end = batch.last_offset + 1

    def _topic_states(self, records: Sequence[MetadataRecord]) -> tuple[TopicState, ...]:
        if not self._history.is_complete:
            return ()
        changed = self._topics.take(records)
        if not changed:
            return ()
        found = self._topics.by_name()
        return tuple(
            TopicState(
                topic=topic,
                partitions=found[topic].partitions if topic in found else None,
                value=found[topic].configs.get(CONFIG) if topic in found else None,
            )
            for topic in sorted(changed)
        )


def _broker_changes(records: Sequence[MetadataRecord]) -> Iterator[BrokerChange]:
    for record in records:
        if isinstance(record, RegisterBrokerRecord):
            yield BrokerChange(
                broker_id=record.broker_id,
                broker_epoch=record.broker_epoch,
                incarnation=str(record.incarnation_id),
                is_fenced=record.fenced,
            )
        elif isinstance(record, BrokerRegistrationChangeRecord) and record.fenced:
            yield BrokerChange(
                broker_id=record.broker_id, broker_epoch=record.broker_epoch, is_fenced=record.fenced > 0
            )
