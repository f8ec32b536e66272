"""Writing as the leader: records of the host, and control records of the quorum's own."""

from odradek.core.raft import parking
from odradek.core.raft.batch import Batch
from odradek.core.raft.effects import Append, RecordsRefused
from odradek.core.raft.events import RecordsOffered
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader
from odradek.records.control import ControlMessage


def on_records_offered(replica: Replica, event: RecordsOffered) -> None:
    leader = replica.role
    if not isinstance(leader, Leader) or leader.epoch != event.epoch or leader.is_resigning or replica.is_stopping:
        replica.emit(RecordsRefused(f"this node does not lead in epoch {event.epoch}"))
        return
    base_offset = replica.log.end_offset
    last_offset = base_offset + event.record_count - 1
    batch = Batch(base_offset=base_offset, last_offset=last_offset, epoch=leader.epoch, data=event.data)
    _append(replica, leader, batch)


def append_control(replica: Replica, leader: Leader, messages: tuple[ControlMessage, ...]) -> int:
    """Returns the offset of the last one. A change of the voters counts from here on, committed or not."""
    base_offset = replica.log.end_offset
    last_offset = base_offset + len(messages) - 1
    batch = Batch(base_offset=base_offset, last_offset=last_offset, epoch=leader.epoch, control=messages)
    _append(replica, leader, batch)
    replica.quorum.note(messages, base_offset)
    leader.progress.follow(replica.voters)
    return last_offset


def _append(replica: Replica, leader: Leader, batch: Batch) -> None:
    change = replica.log.append(batch)
    replica.emit(Append(change, (batch,)))
    parking.release(replica, leader)
