"""`range`: divides the partitions of each topic into ranges, one for each subscriber.

Subscribers have the same order for every topic, so that the same partition numbers of topics of the same size go to the
same member. The assignment is not sticky, but static members come first and keep their positions.
"""

from uuid import UUID

from odradek.core.groups.assignors.spec import Assignment, GroupSpec


def assign_ranges(group: GroupSpec) -> Assignment:
    ordered = sorted(group.members, key=lambda member_id: _place(group, member_id))
    readers: dict[UUID, list[str]] = {}
    for member_id in ordered:
        for topic_id in group.members[member_id].topic_ids:
            readers.setdefault(topic_id, []).append(member_id)
    assignment: Assignment = {member_id: {} for member_id in ordered}
    for topic_id, member_ids in readers.items():
        least, more = divmod(group.partition_count(topic_id), len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + least + (index < more)
            if start < end:
                assignment[member_id][topic_id] = set(range(start, end))
            start = end
    return assignment


def _place(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
