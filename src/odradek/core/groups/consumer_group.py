"""A consumer group: members, target assignment, and the owner of each partition (KIP-848).

It has three kinds of epochs: every change that requires a new assignment increments the group epoch; the assignment
epoch is the group epoch of the target assignment; a member epoch is that of the assignment the member has reached. Only
the replay of records changes a group, except for `metadata_refresh` and `rebalances`.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, Partitions
from odradek.core.groups.consumer_subscriptions import ResolvedRegex, Subscriptions, change_count, regex_of
from odradek.core.groups.hash_order import in_timeline_order
from odradek.core.groups.rebalances import REBALANCES_KEPT, Rebalance
from odradek.core.groups.subscription import CONSUMER_PROTOCOL_TYPE

EPOCHS_IN_COMMITS_SINCE: Final = 9
"""The first version of OffsetCommit for members of consumer groups."""
_FIRST_EPOCH: Final = 1
_NO_EPOCH: Final = -1
_SMALLEST_TABLE: Final = 2

PartitionCheck = Callable[[UUID | None, int], None]
"""Raises KafkaError if the member may not commit the offset of this partition."""


class ConsumerState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The assignment epoch is older than the group epoch."""
    RECONCILING = "Reconciling"
    """Some members have not reached the target assignment."""
    STABLE = "Stable"


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        """Of the subscribed topics, at the last increment of the group epoch."""
        self.assignment_epoch = _FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.target: dict[str, Mapping[UUID, frozenset[int]]] = {}
        """The target assignment, by member."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.subscriptions = Subscriptions()
        self.regexes: dict[str, int] = {}
        """The number of members with each expression."""
        self.resolved: dict[str, ResolvedRegex] = {}
        self.classic_member_count = 0
        self.has_partition_metadata = False
        """The log has a record of an earlier release, to be deleted with the next write."""
        self.metadata_refresh: tuple[int, int] = (0, 0)
        """When to check the topics again, and the group epoch for which that holds."""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        """Since this coordinator was loaded: records do not have them."""
        self._assignors: dict[str, int] = {}
        """The number of members that request each assignor."""
        self._held: dict[UUID, dict[int, int]] = {}
        """The epoch of the member that owns each partition."""
        self._table_size = _SMALLEST_TABLE

    # ---- state

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def is_metadata_expired(self, now_ms: int) -> bool:
        deadline_ms, epoch = self.metadata_refresh
        return now_ms >= deadline_ms or self.epoch < epoch

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        return partition not in self._held.get(topic_id, ())

    def member_ids_in_order(self) -> list[str]:
        """In the order of Kafka's hash map."""
        return in_timeline_order(self.members, self._table_size)

    def end_rebalances(self, last: ConsumerMember, epoch: int, now_ms: int) -> None:
        """Ends the rebalance if all members, `last` in its new state included, have reached this epoch."""
        if self.rebalances and self.rebalances[-1].ended_ms is None and last.is_reconciled_to(epoch):
            others = (one for one in self.members.values() if one.member_id != last.member_id)
            if all(one.is_reconciled_to(epoch) for one in others):
                for rebalance in self.rebalances:
                    rebalance.ended_ms = now_ms if rebalance.ended_ms is None else rebalance.ended_ms

    # ---- members

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Mapping[UUID, frozenset[int]]:
        """A static member has the target assignment of its predecessor."""
        owner = member.member_id
        if member.instance_id is not None:
            owner = self.static_members.get(member.instance_id, "")
        return self.target.get(owner, {})

    def put_member(self, member: ConsumerMember) -> None:
        if (len(self.members) + 1) * 3 > self._table_size * 4:
            self._table_size *= 2
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._change(old, member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id)
        self._change(old, None)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)

    def _change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        self.subscriptions.change(old, new)
        change_count(self.regexes, regex_of(old), regex_of(new))
        change_count(self._assignors, None if old is None else old.assignor, None if new is None else new.assignor)
        if old is not None:
            self.classic_member_count -= old.is_classic
            self._release(old.assigned, old.epoch)
            self._release(old.revoking, old.epoch)
        if new is not None:
            self.classic_member_count += new.is_classic
            self._hold(new.assigned, new.epoch)
            self._hold(new.revoking, new.epoch)

    def _hold(self, partitions: Partitions, epoch: int) -> None:
        for topic_id, held in partitions.items():
            of_topic = self._held.setdefault(topic_id, {})
            for partition in held:
                of_topic[partition] = max(epoch, of_topic.get(partition, epoch))

    def _release(self, partitions: Partitions, epoch: int) -> None:
        """Keeps partitions that another member owns in a newer epoch."""
        for topic_id, held in partitions.items():
            of_topic = self._held.get(topic_id, {})
            for partition in held:
                if of_topic.get(partition) == epoch:
                    del of_topic[partition]
            if not of_topic:
                self._held.pop(topic_id, None)

    def leave_all(self, member_id: str) -> None:
        """It owns no partitions, and is about to be removed."""
        member = self.members.get(member_id)
        if member is not None:
            left = replace(
                member, epoch=_NO_EPOCH, previous_epoch=_NO_EPOCH, assigned=NO_PARTITIONS, revoking=NO_PARTITIONS
            )
            self.put_member(left)

    # ---- subscriptions and assignors

    def put_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        former = self.resolved.pop(regex, None)
        if former is not None:
            self.subscriptions.unmatch(former.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.subscriptions.match(resolved.topics)

    @property
    def last_resolved_regex(self) -> ResolvedRegex | None:
        """All expressions are resolved together."""
        return next(iter(self.resolved.values()), None)

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """The assignor that most members request, with `new` in the place of `old`; None if no member requests one.

        Between equals, Kafka takes the first one in its hash map; here the name decides.
        """
        votes = dict(self._assignors)
        change_count(votes, None if old is None else old.assignor, None if new is None else new.assignor)
        return max(sorted(votes), key=votes.__getitem__) if votes else None

    # ---- members that use the classic protocol

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        support = Counter(
            protocol.name
            for member in self.members.values()
            if member.classic is not None
            for protocol in member.classic.supported_protocols
        )
        return any(support[name] == self.classic_member_count for name in names)

    def is_waiting_for_others(self, member: ConsumerMember) -> bool:
        """Its target assignment has partitions that others have not revoked yet."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, ()) and not self.is_free(topic_id, partition)
            for topic_id, partitions in self.target.get(member.member_id, {}).items()
            for partition in partitions
        )

    # ---- checks of requests

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool, version: int
    ) -> PartitionCheck | None:
        """A member may use an older epoch if it has owned the partition since that epoch."""
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == _NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and not member.is_classic and version < EPOCHS_IN_COMMITS_SINCE:
            raise KafkaError(ErrorCode.unsupported_version)
        if epoch == member.epoch:
            return None
        stale = ErrorCode.illegal_generation if member.is_classic else ErrorCode.stale_member_epoch
        if epoch > member.epoch:
            raise KafkaError(stale)

        def check(topic_id: UUID | None, partition: int) -> None:
            since = None if topic_id is None else member.epoch_of(topic_id, partition)
            if since is None or epoch < since:
                raise KafkaError(stale)

        return check

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise KafkaError(ErrorCode.illegal_generation if member.is_classic else ErrorCode.stale_member_epoch)

    def check_offset_delete(self) -> None:
        """Always allowed, except for subscribed topics."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.non_empty_group)
