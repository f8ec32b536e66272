"""Session, rebalance, join and sync deadlines of consumer group members."""

from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.groups import CONSUMER_JOIN, CONSUMER_REBALANCE, CONSUMER_SESSION, CONSUMER_SYNC, Groups


class ConsumerDeadlines:
    def __init__(self, groups: Groups, configs: GroupConfigs) -> None:
        self._deadlines = groups.deadlines
        self._configs = configs
        self._revoking_in: dict[tuple[str, str], int] = {}
        """By group and member: the epoch that it has to leave before the deadline."""

    def renew_session_deadline(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None) -> None:
        """`timeout_ms` is the session timeout of a classic member."""
        wait_ms = self._configs.session_timeout_ms(group_id) if timeout_ms is None else timeout_ms
        self._deadlines.set((CONSUMER_SESSION, group_id, member_id), now_ms + wait_ms)

    def start_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        self._revoking_in[group_id, member.member_id] = member.epoch
        at_ms = now_ms + member.rebalance_timeout_ms
        self._deadlines.set((CONSUMER_REBALANCE, group_id, member.member_id), at_ms)

    def end_revocation(self, group_id: str, member_id: str) -> None:
        self._revoking_in.pop((group_id, member_id), None)
        self._deadlines.cancel((CONSUMER_REBALANCE, group_id, member_id))

    def pop_epoch_to_leave(self, group_id: str, member_id: str) -> int | None:
        """The revocation deadline has expired."""
        return self._revoking_in.pop((group_id, member_id), None)

    def expect_join(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Unless the deadline is set already."""
        key = (CONSUMER_JOIN, group_id, member.member_id)
        if not self._deadlines.is_set(key):
            self._deadlines.set(key, now_ms + member.rebalance_timeout_ms)

    def end_join(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel((CONSUMER_JOIN, group_id, member_id))

    def expect_sync(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int) -> None:
        self._deadlines.set((CONSUMER_SYNC, group_id, member_id), now_ms + timeout_ms)

    def end_sync(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel((CONSUMER_SYNC, group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel((CONSUMER_SESSION, group_id, member_id))
        self.end_revocation(group_id, member_id)
        self.end_join(group_id, member_id)
        self.end_sync(group_id, member_id)
