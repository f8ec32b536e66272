"""The groups of one partition, and the deadlines that their members have to meet."""

from collections.abc import Iterator

from .classic_group import ClassicGroup
from .deadlines import Deadlines

SESSION = "session"
JOIN = "join"
SYNC = "sync"

DeadlineKey = tuple[str, str, str]
"""Of what kind, of which group, and of which member, if of one."""


class Groups:
    def __init__(self) -> None:
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self._by_id: dict[str, ClassicGroup] = {}

    def get(self, group_id: str) -> ClassicGroup | None:
        return self._by_id.get(group_id)

    def get_or_create(self, group_id: str, now_ms: int) -> ClassicGroup:
        group = self._by_id.get(group_id)
        if group is None:
            group = self._by_id[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def put(self, group: ClassicGroup) -> None:
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._by_id.pop(group_id, None)

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self._by_id.values())
