"""What a replica does when its leader's port refuses connections. The rules are in `core/liveness/dead_leader`."""

from odradek.core.raft.ballot import Ballot
from odradek.core.raft.events import ConnectionRefused, ConnectionUp
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Follower, Prospective, Unattached


def on_connection_refused(replica: Replica, event: ConnectionRefused) -> None:
    replica.refused_nodes.on_refused(event.node_id)


def on_connection_up(replica: Replica, event: ConnectionUp) -> None:
    replica.refused_nodes.on_connected(event.node_id)
    role = replica.role
    if isinstance(role, Follower) and role.leader_id == event.node_id:
        role.dead_leader_deadline_ms = None


def is_leader_dead(replica: Replica) -> bool:
    return replica.refused_nodes.is_dead(replica.leader_id)


def is_last_leader_dead(replica: Replica) -> bool:
    """Then failed elections are repeated soon, since no leader can be disturbed."""
    return replica.refused_nodes.is_dead(replica.last_leader_id)


def cannot_win(replica: Replica, ballot: Ballot) -> bool:
    """Whether the voters that still listen are too few: retrying soon is better than waiting for the timeout."""
    return is_last_leader_dead(replica) and ballot.is_lost_without(replica.refused_nodes.ids)


def retry_deadline_ms(replica: Replica) -> int:
    return replica.refused_nodes.next_election_ms(replica.now_ms)


def shorten_first_election(replica: Replica, role: Unattached) -> Unattached:
    """After a start without a known leader: pre-votes do not disturb a leader, so there is no need to wait."""
    if replica.refused_nodes.is_enabled and role.leader_id is None and role.election_deadline_ms is not None:
        role.election_deadline_ms = retry_deadline_ms(replica)
    return role


def should_start_election(replica: Replica, follower: Follower) -> bool:
    if not is_leader_dead(replica):
        follower.dead_leader_deadline_ms = None
        return False
    if follower.dead_leader_deadline_ms is None:
        follower.dead_leader_deadline_ms = replica.refused_nodes.first_election_ms(replica.now_ms)
    replica.wake_at(follower.dead_leader_deadline_ms)
    return replica.now_ms >= follower.dead_leader_deadline_ms


def return_to_leader(replica: Replica, prospective: Prospective, leader_id: int) -> None:
    """The pre-votes did not suffice. If the leader still refuses connections, the replica requests them again soon."""
    replica.become_follower(replica.epoch, leader_id, prospective.leader_endpoints)
    if isinstance(replica.role, Follower) and is_leader_dead(replica):
        replica.role.dead_leader_deadline_ms = retry_deadline_ms(replica)
