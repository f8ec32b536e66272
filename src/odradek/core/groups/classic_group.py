"""A classic group: its members, its state, and the checks that depend on them.

It has no deadlines and writes no records; `classic_rebalance` changes its state.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.classic_member import ClassicMember
from odradek.core.groups.commands import JoinedMember, MemberProtocol
from odradek.core.groups.hash_order import first_in_hash_order, names_in_hash_order, table_size_for
from odradek.core.groups.rebalances import REBALANCES_KEPT, Rebalance
from odradek.core.groups.subscription import CONSUMER_PROTOCOL_TYPE, UnreadableSubscription, subscribed_topics


class State(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waits for the leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"


_STATES_BEFORE: Final = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}


class ClassicGroup:
    def __init__(
        self, group_id: str, now_ms: int, *, protocol_type: str | None = None, state: State = State.EMPTY
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = State.DEAD
        self.state_timestamp_ms: int | None = now_ms
        """The time of the last state change; old records do not have it."""
        self.protocol_type = protocol_type
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_join: set[str] = set()
        """Ids that were returned with MEMBER_ID_REQUIRED, and have not joined yet."""
        self.pending_sync: set[str] = set()
        self.subscribed_topics: set[str] | None = None
        """None if unknown."""
        self.initial_delay: tuple[int, int] | None = None
        """During the initial rebalance: the current delay, and the remaining time that may be added."""
        self.new_member_added = False
        """During the initial rebalance, since the start of the current delay."""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self._members_at_once = 0
        self._support: Counter[str] = Counter()
        """The number of members that support a protocol."""

    # ---- state

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return self.state in _STATES_BEFORE[State.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def transition_to(self, state: State, now_ms: int) -> None:
        assert self.state in _STATES_BEFORE[state], f"invalid transition of {self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def start_next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        assert self.leader_id is None or self.leader_id in self.members, f"leader {self.leader_id} is not a member"
        assert self.generation_id > 0, f"generation of group {self.group_id} decreases to {self.generation_id}"
        self.protocol_name = self.select_protocol() if self.members else None
        self.learn_subscriptions()
        self.transition_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_sync.clear()

    # ---- members

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, f"two members with instance id {member.instance_id}"
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._members_at_once = max(self._members_at_once, len(self.members))
        self._support.update(member.protocol_names)
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """A member, or an id in `pending_join`."""
        removed = self.members.pop(member_id, None)
        if removed is not None:
            self._support.subtract(removed.protocol_names)
            if removed.instance_id is not None:
                self.static_members.pop(removed.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = self._first(self.members)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[MemberProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._support.subtract(member.protocol_names)
        member.protocols = protocols
        self._support.update(member.protocol_names)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Gives the member another id; it has no pending response."""
        member = self.members.pop(old_id)
        assert member.awaiting_join is None and member.awaiting_sync is None
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = member
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return member

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, else elects a joined member. Returns whether there is a leader."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is None:
            joined = self._first([member.member_id for member in self.joined_members()])
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def _first(self, member_ids: Collection[str]) -> str | None:
        if not member_ids:
            return None
        return first_in_hash_order(member_ids, table_size_for(self._members_at_once))

    def member_ids_in_order(self) -> list[str]:
        """In the order of Kafka's hash map."""
        return names_in_hash_order(self.members, self._members_at_once)

    def joined_members(self) -> Iterator[ClassicMember]:
        return (member for member in self.members.values() if member.awaiting_join is not None)

    @property
    def joined_count(self) -> int:
        return sum(1 for _ in self.joined_members())

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_join and self.joined_count == len(self.members)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            if current != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    # ---- protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(self._support[name] == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support."""
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        return first_in_hash_order([name for name, count in votes.items() if count == most])

    def learn_subscriptions(self) -> None:
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed_topics = set()
        elif self.protocol_name is not None:
            try:
                topics = [subscribed_topics(member.metadata(self.protocol_name)) for member in self.members.values()]
            except UnreadableSubscription:
                return
            self.subscribed_topics = set().union(*topics)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def members_for_leader(self) -> tuple[JoinedMember, ...]:
        assert self.protocol_name is not None
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    # ---- checks of requests

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, *, is_transactional: bool
    ) -> None:
        """A member of the current generation may commit offsets of any partition."""
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        if generation_id < 0 and self.state is State.EMPTY:
            # A consumer with manual partition assignment.
            return
        if generation_id >= 0 or member_id or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.none:
                raise KafkaError(error)
            if generation_id != self.generation_id:
                raise KafkaError(ErrorCode.illegal_generation)
        elif not is_transactional:
            raise KafkaError(ErrorCode.unknown_member_id)
        if not is_transactional and self.state is State.COMPLETING_REBALANCE:
            # The members know of the rebalance, but not yet their assignments.
            raise KafkaError(ErrorCode.rebalance_in_progress)

    def check_offset_delete(self) -> None:
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.group_id_not_found, f"Group {self.group_id} is in dead state.")
        if self.state is not State.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.non_empty_group)

    def check_delete(self) -> None:
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.group_id_not_found, f"Group {self.group_id} is in dead state.")
        if self.state is not State.EMPTY:
            raise KafkaError(ErrorCode.non_empty_group)
