"""By when members of consumer groups have to be heard of, and what they have to have done."""

from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.groups import CONSUMER_JOIN, CONSUMER_REBALANCE, CONSUMER_SESSION, CONSUMER_SYNC, Groups


class ConsumerDeadlines:
    def __init__(self, groups: Groups, configs: GroupConfigs) -> None:
        self._deadlines = groups.deadlines
        self._configs = configs
        self._revoking_in: dict[tuple[str, str], int] = {}
        """By group and member: the epoch that it has to leave in time."""

    def keep_alive(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None) -> None:
        """`timeout_ms` is for members by the classic protocol, that have their own."""
        wait_ms = self._configs.session_timeout_ms(group_id) if timeout_ms is None else timeout_ms
        self._deadlines.set((CONSUMER_SESSION, group_id, member_id), now_ms + wait_ms)

    def revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        self._revoking_in[group_id, member.member_id] = member.epoch
        at_ms = now_ms + member.rebalance_timeout_ms
        self._deadlines.set((CONSUMER_REBALANCE, group_id, member.member_id), at_ms)

    def revoked(self, group_id: str, member_id: str) -> None:
        self._revoking_in.pop((group_id, member_id), None)
        self._deadlines.cancel((CONSUMER_REBALANCE, group_id, member_id))

    def epoch_to_leave(self, group_id: str, member_id: str) -> int | None:
        """Of a revocation whose time is over."""
        return self._revoking_in.pop((group_id, member_id), None)

    def join(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Unless it has been waited for already."""
        key = (CONSUMER_JOIN, group_id, member.member_id)
        if not self._deadlines.is_set(key):
            self._deadlines.set(key, now_ms + member.rebalance_timeout_ms)

    def joined(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel((CONSUMER_JOIN, group_id, member_id))

    def sync(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int) -> None:
        self._deadlines.set((CONSUMER_SYNC, group_id, member_id), now_ms + timeout_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel((CONSUMER_SYNC, group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel((CONSUMER_SESSION, group_id, member_id))
        self.revoked(group_id, member_id)
        self.joined(group_id, member_id)
        self.synced(group_id, member_id)
