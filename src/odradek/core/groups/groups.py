"""The groups of one partition, and the deadlines that their members have to meet."""

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
"""Of a member that is to give up partitions."""
CONSUMER_JOIN = "consumer join"
"""Of a member by the classic protocol, that has been told to join again."""
CONSUMER_SYNC = "consumer sync"
CONSUMER_REGEXES = "consumer regexes"

DeadlineKey = tuple[str, str, str]
"""Of what kind, of which group, and of which member, if of one."""


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
        """The classic group that comes to be with its first member or offset."""
        group = self.classic(group_id)
        if group is None:
            group = self._by_id[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def expect(self, group: ConsumerGroup) -> None:
        """It comes to be with the records of the present step, which do not tell why there is an assignment."""
        self._expected = group

    def consumer_to_replay(self, group_id: str) -> ConsumerGroup:
        """In the place of a classic group, if that was only there for its offsets."""
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
