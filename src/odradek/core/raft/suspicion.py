"""Taking a leader for dead without waiting out the fetch timeout, and never a leader that a majority can reach.

A process that ends closes its port, and the next connect is refused. A voter that finds its leader so asks for
pre-votes after a short jitter; another grants if it finds the leader so too. Silence proves nothing: then Kafka's
timeouts hold.
"""

from typing import Final

from odradek.core.raft.ballot import Ballot
from odradek.core.raft.events import ConnectionRefused, ConnectionUp
from odradek.core.raft.replica import Replica
from odradek.core.raft.roles import Follower, Prospective, Unattached

JITTER_MS_MAX: Final = 50
"""So that the voters that lost the same leader do not all ask at once."""
RETRY_MS_MIN: Final = 20
RETRY_MS_MAX: Final = 100


def on_connection_refused(replica: Replica, event: ConnectionRefused) -> None:
    replica.refused_ids.add(event.node_id)


def on_connection_up(replica: Replica, event: ConnectionUp) -> None:
    replica.refused_ids.discard(event.node_id)
    role = replica.role
    if isinstance(role, Follower) and role.leader_id == event.node_id:
        role.suspicion_deadline_ms = None


def is_leader_refused(replica: Replica) -> bool:
    return replica.settings.fast_detection and replica.leader_id in replica.refused_ids


def is_hurried(replica: Replica) -> bool:
    """The last leader is gone for sure: elections that fail are repeated soon."""
    return replica.settings.fast_detection and replica.last_leader_id in replica.refused_ids


def is_hopeless(replica: Replica, ballot: Ballot) -> bool:
    """With the voters that still listen there is nothing to be won: better soon again than after the whole timeout."""
    return is_hurried(replica) and ballot.is_lost_without(replica.refused_ids)


def retry_deadline_ms(replica: Replica) -> int:
    return replica.now_ms + RETRY_MS_MIN + replica.random.randrange(RETRY_MS_MAX - RETRY_MS_MIN + 1)


def hurried(replica: Replica, role: Unattached) -> Unattached:
    """After a start: pre-votes harm no leader, and where there is none, nobody has to be waited for."""
    if replica.settings.fast_detection and role.leader_id is None and role.election_deadline_ms is not None:
        role.election_deadline_ms = retry_deadline_ms(replica)
    return role


def suspects_leader(replica: Replica, follower: Follower) -> bool:
    """Whether it is time to stand for election because of it."""
    if not is_leader_refused(replica):
        follower.suspicion_deadline_ms = None
        return False
    if follower.suspicion_deadline_ms is None:
        follower.suspicion_deadline_ms = replica.now_ms + replica.random.randrange(JITTER_MS_MAX + 1)
    replica.wake_at(follower.suspicion_deadline_ms)
    return replica.now_ms >= follower.suspicion_deadline_ms


def return_to_leader(replica: Replica, prospective: Prospective, leader_id: int) -> None:
    """Pre-votes were not enough. If the leader still refuses, they are asked for again before long."""
    replica.become_follower(replica.epoch, leader_id, prospective.leader_endpoints)
    if isinstance(replica.role, Follower) and is_leader_refused(replica):
        replica.role.suspicion_deadline_ms = retry_deadline_ms(replica)
