"""Membership of consumer groups for both protocols: limits, member ids, and static members."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_text
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.consumer_member import ConsumerMember
from odradek.core.groups.consumer_records import current_record, member_tombstones, subscription_record, target_record
from odradek.core.groups.coordinator_result import CoordinatorResult


def new_member_id(new_uuid: Callable[[], UUID]) -> str:
    """For a member without an id of its own."""
    while (member_id := uuid_to_text(new_uuid())).startswith("-"):
        # Command-line tools would parse it as an option.
        continue
    return member_id


def check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {size_max} members."
        raise KafkaError(ErrorCode.group_max_size_reached, message)


def check_static(member: ConsumerMember | None, instance_id: str) -> ConsumerMember:
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    return member


def check_instance(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise KafkaError(ErrorCode.fenced_instance_id, message)


def replace_static(
    group: ConsumerGroup, former: ConsumerMember, member_id: str, result: CoordinatorResult
) -> ConsumerMember:
    """Gives the member another id; it keeps its state. Deadlines of the former id have no effect."""
    member = replace(former, member_id=member_id, epoch=0, previous_epoch=0)
    result.records += member_tombstones(group.group_id, former.member_id)
    result.records.append(subscription_record(group.group_id, member))
    result.records.append(target_record(group.group_id, member_id, group.target.get(former.member_id, {})))
    result.records.append(current_record(group.group_id, member))
    return member
