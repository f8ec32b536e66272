"""The uniform assignment of a group whose members have different subscriptions."""

from typing import Final
from uuid import UUID

from odradek.core.groups.assignors.load_order import LoadOrder
from odradek.core.groups.assignors.spec import Assignment, AssignorFailed, GroupSpec

_ROUNDS_MAX: Final = 16
"""Number of passes over all topics: balancing one topic may make another one unbalanced."""
_NOBODY: Final = -1


class UnevenGroup:
    """Refers to members by their index in the group's order."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self._loads = [0] * len(self._member_ids)
        self._readers: dict[UUID, list[int]] = {}
        for index, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self._readers.setdefault(topic_id, []).append(index)
        self._owners = {topic_id: [_NOBODY] * group.partition_count(topic_id) for topic_id in self._readers}

    def assign(self) -> Assignment:
        self._keep()
        self._assign_free()
        self._balance()
        assignment: Assignment = {member_id: {} for member_id in self._member_ids}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assignment[self._member_ids[owner]].setdefault(topic_id, set()).add(partition)
        return assignment

    def _keep(self) -> None:
        for index, member in enumerate(self._group.members.values()):
            for topic_id, partitions in member.assigned.items():
                if topic_id in member.topic_ids:
                    if max(partitions, default=0) >= len(self._owners[topic_id]):
                        raise AssignorFailed(f"Topic {topic_id} has no partition {max(partitions)}")
                    for partition in partitions:
                        self._move(topic_id, partition, index)

    def _assign_free(self) -> None:
        """Assigns free partitions to the least loaded subscribers; topics with most partitions per subscriber first."""
        for topic_id in sorted(self._readers, key=self._rank):
            free = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner == _NOBODY]
            if free:
                order = LoadOrder(self._loads, self._readers[topic_id])
                for partition in free:
                    self._move(topic_id, partition, order.next_least())

    def _balance(self) -> None:
        shared = sorted((one for one, readers in self._readers.items() if len(readers) > 1), key=self._rank)
        last_changed: int | None = None
        for _ in range(_ROUNDS_MAX):
            for index, topic_id in enumerate(shared):
                if index == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed is None:
                    last_changed = index

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Returns whether a partition was reassigned."""
        order = LoadOrder(self._loads, self._readers[topic_id])
        if order.spread <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not order.is_balanced():
            most = order.next_most()
            while most is not None and not owned.get(most):
                order.exclude_most()
                most = order.next_most()
            if most is None:
                break
            partition = owned[most].pop()
            least = order.next_least()
            if order.is_balanced():
                break
            self._move(topic_id, partition, least)
            moved = True
        return moved

    def _move(self, topic_id: UUID, partition: int, index: int) -> None:
        former = self._owners[topic_id][partition]
        if former != _NOBODY:
            self._loads[former] -= 1
        self._owners[topic_id][partition] = index
        self._loads[index] += 1

    def _rank(self, topic_id: UUID) -> tuple[float, int, int, int]:
        readers = len(self._readers[topic_id])
        # Kafka compares the halves of an id as signed numbers.
        high, low = topic_id.int >> 64, topic_id.int & (1 << 64) - 1
        return -self._group.partition_count(topic_id) / readers, readers, _to_signed(high), _to_signed(low)


def _to_signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half
