"""`uniform`: numbers of partitions differ by at most one, and members keep as many partitions as possible.

If all members have the same subscription, quotas decide; otherwise `balance` reassigns partitions from the most to the
least loaded members, topic by topic.
"""

from itertools import islice
from uuid import UUID

from odradek.core.groups.assignors.balance import UnevenGroup
from odradek.core.groups.assignors.spec import Assignment, AssignorFailed, GroupSpec
from odradek.core.groups.hash_order import uuids_in_hash_order


def assign_uniformly(group: GroupSpec) -> Assignment:
    if not any(member.topic_ids for member in group.members.values()):
        return {}
    return _assign_by_quota(group) if group.is_homogeneous else UnevenGroup(group).assign()


def _assign_by_quota(group: GroupSpec) -> Assignment:
    topic_ids = next(iter(group.members.values())).topic_ids
    # By topic: hashing an id is slow, and a group has many more partitions than topics.
    taken: dict[UUID, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in taken:
                taken[topic_id].update(partitions)
    free: list[tuple[UUID, int]] = []
    total = 0
    for topic_id in uuids_in_hash_order(topic_ids):
        count, of_topic = group.partition_count(topic_id), taken[topic_id]
        free += [(topic_id, partition) for partition in range(count) if partition not in of_topic]
        total += count
    least, more = divmod(total, len(group.members))
    assignment: Assignment = {}
    wanting: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(group.members.items()):
        quota = least + (more > 0)
        kept: dict[UUID, set[int]] = {}
        for topic_id, partitions in member.assigned.items():
            if topic_id not in topic_ids:
                continue
            ordered = sorted(partitions)
            if ordered[:quota]:
                kept[topic_id] = set(ordered[:quota])
            free += [(topic_id, partition) for partition in ordered[quota:]]
            quota -= len(ordered[:quota])
        assignment[member_id] = kept
        has_one_more = more > 0
        if quota > 0 and has_one_more and len(group.members) - index > more:
            # A later member may already own the partition that this one lacks.
            quota -= 1
            has_one_more = False
        if quota > 0:
            wanting.append((member_id, quota))
        more -= has_one_more
    next_free = iter(free)
    for member_id, quota in wanting:
        for topic_id, partition in islice(next_free, quota):
            assignment[member_id].setdefault(topic_id, set()).add(partition)
    if next(next_free, None) is not None:
        # The leader of a classic group has assigned partitions that do not exist.
        raise AssignorFailed("Partitions were left unassigned")
    return assignment
