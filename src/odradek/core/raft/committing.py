"""How the leader advances the high watermark, and checks that a majority still fetches from it."""

from odradek.core.raft import membership, pending_fetches
from odradek.core.raft.effects import LeadershipConfirmed
from odradek.core.raft.events import LogSynced
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Leader
from odradek.core.raft.voter_set import ReplicaKey


def on_log_synced(replica: Replica, event: LogSynced) -> None:
    replica.log.on_synced(event.change)
    if isinstance(replica.role, Leader):
        advance(replica, replica.role)


def advance(replica: Replica, leader: Leader) -> None:
    """Advances the high watermark to the offset up to which a majority of voters, itself included, has synced."""
    leader.progress.of(replica.key, replica.now_ms).end_offset = own_end_offset(replica)
    end_offset = leader.progress.majority_end_offset()
    if end_offset is None or not may_commit(leader, end_offset):
        return
    is_first = leader.high_watermark is None
    assert is_first or end_offset > (leader.high_watermark or 0), "a leader's high watermark never decreases"
    leader.high_watermark = end_offset
    replica.advance_high_watermark(end_offset)
    replica.has_caught_up = True
    if is_first:
        replica.emit(LeadershipConfirmed(leader.epoch))
    membership.on_high_watermark(replica, leader, end_offset)
    pending_fetches.serve_ready(replica, leader)


def own_end_offset(replica: Replica) -> int:
    """As for followers, only synced records count."""
    return replica.log.synced_end_offset


def may_commit(leader: Leader, end_offset: int) -> bool:
    """Records of earlier epochs are not committed by counting replicas: another leader could still overwrite them."""
    if leader.high_watermark is None:
        return end_offset > leader.epoch_start_offset
    return end_offset > leader.high_watermark


def note_fetch(replica: Replica, leader: Leader, key: ReplicaKey) -> None:
    """If no majority of voters fetches in time, there may be another leader."""
    if leader.progress.is_voter(key):
        leader.fetched_voters.add(key.node_id)
    voter_ids = leader.progress.voters.keys()
    fetching = leader.fetched_voters & voter_ids
    if leader.progress.is_voter(replica.key):
        fetching.add(replica.identity.node_id)
    if len(fetching) > len(voter_ids) // 2:
        leader.fetched_voters.clear()
        leader.check_quorum_deadline_ms = replica.now_ms + replica.settings.check_quorum_timeout_ms
