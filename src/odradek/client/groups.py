"""Admin operations on groups: list, describe, read and commit offsets, delete."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, partitions_by_topic
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.coordinators import (
    Coordinator,
    CoordinatorType,
    Results,
    query_coordinators,
    query_every_broker,
    raise_if_error,
    require_part,
    result_or_error,
)
from odradek.client.errors import NotSupportedByBroker
from odradek.client.member_assignment import CONSUMER_PROTOCOL, assigned_partitions
from odradek.client.permissions import error_in
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

T = TypeVar("T")


CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
EMPTY: Final = "Empty"
DEAD: Final = "Dead"

# The last version with topic names. Committed offsets may outlive the id of a topic.
_OFFSETS_BY_NAME: Final = 9
_SHOWN_S_MAX: Final = 2.0
_GROUPS_AT_ONCE: Final = 200

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    id: str
    type: str
    """Empty if the broker is too old to report it, and so is the state."""
    state: str
    protocol_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...] | None
    """None if the assignment is in a format that only the members understand."""
    rack: str | None = None
    epoch: int | None = None
    """None in a classic group, as are the following fields."""
    target: tuple[TopicPartition, ...] | None = None
    """The target assignment, which the member reaches after it has revoked partitions."""
    subscribed: tuple[str, ...] = ()
    subscribed_pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    """Empty if there is none."""
    coordinator: Coordinator
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    """None for a classic group, whose generation is not reported."""
    assignment_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        return self.state not in (EMPTY, DEAD)


class Groups:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def listings(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        on_response: Callable[[int], None] = lambda amount: None,
    ) -> list[GroupListing]:
        """List the groups of all brokers, sorted by name, optionally with the given states and types only."""

        def query(node_id: int) -> Sequence[GroupListing]:
            return self._list_at(node_id, tuple(states), tuple(types))

        # A group whose coordinator moves meanwhile may be listed twice.
        found = {one.id: one for one in query_every_broker(self._cluster, "listing groups", query, on_response)}
        return [found[group_id] for group_id in sorted(found)]

    def describe(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Describe groups. An unknown group has the error GROUP_ID_NOT_FOUND."""
        wanted = tuple(dict.fromkeys(group_ids))
        found = self._in_slices("describing groups", wanted, self._describe_consumer_groups)
        others = [group_id for group_id in wanted if _is_unknown_group(found[group_id])]
        return found | self._in_slices("describing groups", others, self._describe_classic_groups)

    def offsets(self, group_ids: Iterable[str]) -> dict[str, Offsets]:
        """Return the committed offsets of each group; empty for an unknown group."""
        found = self._in_slices("reading committed offsets", tuple(dict.fromkeys(group_ids)), self._fetch_offsets)
        return {group_id: raise_if_error(result) for group_id, result in found.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_s: float | None = None) -> None:
        """Commit offsets without being a member, which only a group without members accepts. Raises KafkaError."""

        def build(chosen: Schema) -> Message:
            topics = tuple(
                chosen.new(
                    "OffsetCommitRequestTopic",
                    name=topic,
                    partitions=tuple(
                        chosen.new(
                            "OffsetCommitRequestPartition",
                            partition_index=index,
                            committed_offset=offsets[TopicPartition(topic, index)],
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                        for index in indexes
                    ),
                )
                for topic, indexes in partitions_by_topic(offsets).items()
            )
            return chosen.new(
                "OffsetCommitRequest",
                group_id=group_id,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=topics,
            )

        def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[None]:
            response = self._cluster.send_to(coordinator.address, ApiKey.OFFSET_COMMIT, build, highest=_OFFSETS_BY_NAME)
            errors = _errors(response, group_id)
            return {group_id: next(iter(errors.values()), None)}

        raise_if_error(self._query("committing offsets", (group_id,), query, timeout_s=timeout_s)[group_id])

    def show_progress(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for monitoring only. Does not wait long, because the caller does not depend on them."""
        self.commit(group_id, offsets, timeout_s=_SHOWN_S_MAX)

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, KafkaError]:
        """Delete committed offsets. Returns the errors of the partitions that keep theirs."""

        def build(chosen: Schema) -> Message:
            topics = tuple(
                chosen.new(
                    "OffsetDeleteRequestTopic",
                    name=topic,
                    partitions=tuple(
                        chosen.new("OffsetDeleteRequestPartition", partition_index=index) for index in indexes
                    ),
                )
                for topic, indexes in partitions_by_topic(partitions).items()
            )
            return chosen.new("OffsetDeleteRequest", group_id=group_id, topics=topics)

        def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[dict[TopicPartition, KafkaError]]:
            response = self._cluster.send_to(coordinator.address, ApiKey.OFFSET_DELETE, build)
            return {group_id: result_or_error(response, lambda: _errors(response, group_id), group_id)}

        return raise_if_error(self._query("deleting offsets", (group_id,), query)[group_id])

    def delete(self, group_ids: Iterable[str]) -> dict[str, KafkaError]:
        """Delete groups. Returns the errors of those that were not deleted."""

        def query(coordinator: Coordinator, keys: Sequence[str]) -> Results[None]:
            def build(chosen: Schema) -> Message:
                return chosen.new("DeleteGroupsRequest", groups_names=tuple(keys))

            response = self._cluster.send_to(coordinator.address, ApiKey.DELETE_GROUPS, build)
            return {one.group_id: result_or_error(one, lambda: None) for one in response.results}

        results = self._in_slices("deleting groups", tuple(dict.fromkeys(group_ids)), query)
        return {group_id: result for group_id, result in results.items() if isinstance(result, KafkaError)}

    def _list_at(self, node_id: int, states: tuple[str, ...], types: tuple[str, ...]) -> Sequence[GroupListing]:
        def build(chosen: Schema) -> Message:
            return chosen.new("ListGroupsRequest", states_filter=states, types_filter=types)

        response = self._cluster.send_to_broker(node_id, ApiKey.LIST_GROUPS, build)
        raise_for_error(response)
        listed = [
            GroupListing(
                id=one.group_id,
                type=getattr(one, "group_type", ""),
                state=getattr(one, "group_state", ""),
                protocol_type=one.protocol_type,
                coordinator_id=node_id,
            )
            for one in response.groups
        ]
        # Old brokers do not support filters.
        return [one for one in listed if _is_among(one.state, states) and _is_among(one.type, types)]

    def _describe_consumer_groups(self, coordinator: Coordinator, keys: Sequence[str]) -> Results[GroupDescription]:
        def build(chosen: Schema) -> Message:
            return chosen.new(
                "ConsumerGroupDescribeRequest", group_ids=tuple(keys), include_authorized_operations=False
            )

        try:
            response = self._cluster.send_to(coordinator.address, ApiKey.CONSUMER_GROUP_DESCRIBE, build)
        except NotSupportedByBroker:
            return dict.fromkeys(keys, KafkaError(ErrorCode.group_id_not_found))
        return {
            one.group_id: result_or_error(one, partial(_consumer_group, one, coordinator)) for one in response.groups
        }

    def _describe_classic_groups(self, coordinator: Coordinator, keys: Sequence[str]) -> Results[GroupDescription]:
        def build(chosen: Schema) -> Message:
            return chosen.new("DescribeGroupsRequest", groups=tuple(keys), include_authorized_operations=False)

        response = self._cluster.send_to(coordinator.address, ApiKey.DESCRIBE_GROUPS, build)
        return {
            one.group_id: result_or_error(one, partial(_classic_group, one, coordinator)) for one in response.groups
        }

    def _fetch_offsets(self, coordinator: Coordinator, keys: Sequence[str]) -> Results[Offsets]:
        def build(chosen: Schema) -> Message:
            require_part(chosen, "OffsetFetchRequestGroup")
            groups = tuple(
                chosen.new("OffsetFetchRequestGroup", group_id=key, member_id=None, member_epoch=-1, topics=None)
                for key in keys
            )
            return chosen.new("OffsetFetchRequest", groups=groups, require_stable=False)

        response = self._cluster.send_to(coordinator.address, ApiKey.OFFSET_FETCH, build, highest=_OFFSETS_BY_NAME)
        return {one.group_id: result_or_error(one, partial(_committed_offsets, one)) for one in response.groups}

    def _in_slices(
        self, what: str, keys: Sequence[str], query: Callable[[Coordinator, Sequence[str]], Results[T]]
    ) -> dict[str, T | KafkaError]:
        found: dict[str, T | KafkaError] = {}
        left = iter(keys)
        while some := tuple(islice(left, _GROUPS_AT_ONCE)):
            found |= self._query(what, some, query)
        return found

    def _query(
        self,
        what: str,
        keys: Sequence[str],
        query: Callable[[Coordinator, Sequence[str]], Results[T]],
        *,
        timeout_s: float | None = None,
    ) -> dict[str, T | KafkaError]:
        return query_coordinators(self._cluster, CoordinatorType.GROUP, keys, what, query, timeout_s=timeout_s)


def _is_unknown_group(result: object) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.group_id_not_found


def _is_among(value: str, wanted: Collection[str]) -> bool:
    return not wanted or value.lower() in {one.lower() for one in wanted}


def _classic_group(group: Message, coordinator: Coordinator) -> GroupDescription | KafkaError:
    if group.group_state == DEAD:
        # Before version 6, brokers report an unknown group as Dead.
        return KafkaError(ErrorCode.group_id_not_found, f"Group {group.group_id} not found.")
    understood = group.protocol_type == CONSUMER_PROTOCOL
    members = [
        GroupMember(
            id=member.member_id,
            instance_id=getattr(member, "group_instance_id", None),
            client_id=member.client_id,
            host=member.client_host,
            assigned=assigned_partitions(member.member_assignment) if understood else None,
        )
        for member in group.members
    ]
    return GroupDescription(
        id=group.group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(sorted(members, key=lambda member: member.id)),
    )


def _consumer_group(group: Message, coordinator: Coordinator) -> GroupDescription:
    members = [
        GroupMember(
            id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assigned=_partitions(member.assignment),
            rack=member.rack_id,
            epoch=member.member_epoch,
            target=_partitions(member.target_assignment),
            subscribed=tuple(member.subscribed_topic_names),
            subscribed_pattern=member.subscribed_topic_regex or None,
        )
        for member in group.members
    ]
    return GroupDescription(
        id=group.group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(sorted(members, key=lambda member: member.id)),
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _partitions(assignment: Message) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )


def _committed_offsets(group: Message) -> Offsets:
    found: Offsets = {}
    for topic in group.topics:
        for one in topic.partitions:
            raise_for_error(one, topic.name)
            if one.committed_offset >= 0:
                found[TopicPartition(topic.name, one.partition_index)] = one.committed_offset
    return found


def _errors(response: Message, group_id: str) -> dict[TopicPartition, KafkaError]:
    return {
        TopicPartition(topic.name, one.partition_index): _error(one, topic.name, group_id)
        for topic in response.topics
        for one in topic.partitions
        if one.error_code is not ErrorCode.none
    }


def _error(one: Message, topic: str, group_id: str) -> KafkaError:
    """Of one partition. An error of the whole group is repeated in each of them."""
    name = group_id if one.error_code is ErrorCode.group_authorization_failed else topic
    return error_in(one, name)
