"""Plans a new replication factor for a topic: which brokers get a replica and which lose one. Pure.

The preferred leader stays first while it is online; replicas are spread over racks and hosts as far as there
are enough.
"""

from collections.abc import Collection, Mapping, Sequence

from odradek.client.assignment import Assignment, Change
from odradek.client.placement import Place, PlacedPartition
from odradek.client.reassignment_plan import CannotPlan, PlannedReassignment


def plan_replica_count(
    placed: Sequence[PlacedPartition],
    places: Mapping[int, Place],
    online: Collection[int],
    topic: str,
    count: int,
) -> list[PlannedReassignment]:
    """Plan from the placement of all topics, so that the least loaded brokers get new replicas."""
    if not 1 <= count <= len(online):
        raise CannotPlan(f"{count} replicas need {count} brokers, but only {len(online)} are online")
    placed = sorted(placed, key=lambda one: one.partition)
    assignment = Assignment(placed, places, online)
    touched = [index for index, one in enumerate(placed) if one.partition.topic == topic]
    for index in touched:
        while len(assignment.replicas[index]) > count:
            _take_one(assignment, index)
        while len(assignment.replicas[index]) < count:
            _give_one(assignment, index)
    return [
        PlannedReassignment(
            partition=placed[index].partition,
            before=placed[index].replicas,
            after=assignment.replicas[index],
            size_bytes=placed[index].size_bytes,
        )
        for index in touched
        if placed[index].replicas != assignment.replicas[index]
    ]


def _take_one(assignment: Assignment, index: int) -> None:
    """Remove a replica from an offline broker, else from a shared rack or host, else from the most loaded one."""
    replicas = assignment.replicas[index]
    online = [broker for broker in replicas if broker in assignment.replica_counts]
    kept = online[0] if online else replicas[0]

    def reluctance(broker: int) -> tuple[bool, bool, bool, int, int]:
        is_online = broker in assignment.replica_counts
        shares_rack, shares_host = assignment.shares(replicas, broker)
        return (
            is_online,
            not shares_rack,
            not shares_host,
            -assignment.replica_counts.get(broker, 0),
            -broker,
        )

    leaving = min((broker for broker in replicas if broker != kept), key=reluctance)
    assignment.apply(Change(index, tuple(broker for broker in replicas if broker != leaving)))


def _give_one(assignment: Assignment, index: int) -> None:
    replicas = assignment.replicas[index]
    coming = min(
        (broker for broker in assignment.targets if broker not in replicas),
        key=lambda broker: (
            assignment.shared_places((*replicas, broker)),
            assignment.replica_counts[broker],
            assignment.bytes_on[broker],
            broker,
        ),
    )
    assignment.apply(Change(index, (*replicas, coming)))
