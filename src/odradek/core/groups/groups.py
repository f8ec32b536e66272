"""The groups of one partition, and the deadlines of their members."""

from collections.abc import Iterator

from odradek.core.groups.classic_group import ClassicGroup
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.deadlines import Deadlines

Group = ClassicGroup | ConsumerGroup

SESSION = "session"
JOIN = "join"
SYNC = "sync"
CONSUMER_SESSION = "consumer session"
CONSUMER_REBALANCE = "consumer rebalance"
"""Of a member that has to revoke partitions."""
CONSUMER_JOIN = "consumer join"
"""Of a classic member that has to rejoin."""
CONSUMER_SYNC = "consumer sync"
CONSUMER_REGEXES = "consumer regexes"

DeadlineKey = tuple[str, str, str]
"""Kind, group id, and member id or an empty string."""


class Groups:
    def __init__(self) -> None:
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self._by_id: dict[str, Group] = {}
        self._expected: ConsumerGroup | None = None

    def get(self, group_id: str) -> Group | None:
        return self._by_id.get(group_id)

    def classic(self, group_id: str) -> ClassicGroup | None:
        group = self._by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        group = self._by_id.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def get_or_create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The first member or offset creates a classic group."""
        group = self.classic(group_id)
        if group is None:
            group = self._by_id[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def expect(self, group: ConsumerGroup) -> None:
        """The records of the current result create this group; it has the rebalances that records do not have."""
        self._expected = group

    def consumer_to_replay(self, group_id: str) -> ConsumerGroup:
        """Replaces a classic group that has only offsets."""
        group = self.consumer(group_id)
        if group is None:
            group = self._by_id[group_id] = ConsumerGroup(group_id)
            expected, self._expected = self._expected, None
            if expected is not None and expected.group_id == group_id:
                group.rebalances.extend(expected.rebalances)
        return group

    def put(self, group: Group) -> None:
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._by_id.pop(group_id, None)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._by_id

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def all_classic(self) -> Iterator[ClassicGroup]:
        return (group for group in self._by_id.values() if isinstance(group, ClassicGroup))

    def all_consumer(self) -> Iterator[ConsumerGroup]:
        return (group for group in self._by_id.values() if isinstance(group, ConsumerGroup))
