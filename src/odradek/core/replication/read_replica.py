"""Chooses the replica a consumer should fetch from: one in the consumer's rack that has the offset (KIP-392)."""

from collections.abc import Callable

from odradek.core.replication.leader import LeaderState


def preferred_read_replica(
    leader: LeaderState, fetch_offset: int, rack: str, rack_of: Callable[[int], str | None]
) -> int | None:
    """None: the leader itself. `rack_of` returns None for a broker that the consumer cannot reach.

    Only in-sync replicas count: a lagging replica would delay its consumers.
    """
    if rack_of(leader.broker_id) == rack:
        return None
    near = [
        follower
        for follower in leader.followers.values()
        if follower.broker_id in leader.isr
        and follower.log_start_offset <= fetch_offset <= follower.end_offset
        and rack_of(follower.broker_id) == rack
    ]
    best = max(near, key=lambda one: (one.end_offset, one.last_caught_up, one.broker_id), default=None)
    return None if best is None else best.broker_id
