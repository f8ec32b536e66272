"""How the leader appends: records of the controller, and control records of the quorum."""

from odradek.core.raft import pending_fetches
from odradek.core.raft.batch import Batch
from odradek.core.raft.effects import Append, AppendRejected
from odradek.core.raft.events import AppendRequested
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader
from odradek.records.control import ControlMessage


def on_append_requested(replica: Replica, event: AppendRequested) -> None:
    leader = replica.role
    if not isinstance(leader, Leader) or leader.epoch != event.epoch or leader.is_resigning or replica.is_stopping:
        replica.emit(AppendRejected(f"this node is not the leader of epoch {event.epoch}"))
        return
    base_offset = replica.log.end_offset
    last_offset = base_offset + event.record_count - 1
    batch = Batch(base_offset=base_offset, last_offset=last_offset, epoch=leader.epoch, data=event.data)
    _append(replica, leader, batch)


def append_control(replica: Replica, leader: Leader, messages: tuple[ControlMessage, ...]) -> int:
    """Returns the offset of the last record. A voter change takes effect at once, committed or not."""
    base_offset = replica.log.end_offset
    last_offset = base_offset + len(messages) - 1
    batch = Batch(base_offset=base_offset, last_offset=last_offset, epoch=leader.epoch, control=messages)
    _append(replica, leader, batch)
    replica.quorum.on_append(messages, base_offset)
    leader.progress.update_voters(replica.voters)
    return last_offset


def _append(replica: Replica, leader: Leader, batch: Batch) -> None:
    change = replica.log.append(batch)
    replica.emit(Append(change, (batch,)))
    pending_fetches.serve_ready(replica, leader)
