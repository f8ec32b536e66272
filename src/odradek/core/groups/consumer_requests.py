"""Checks of consumer group heartbeats that do not depend on the group."""

from collections.abc import Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.groups.commands import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    NO_TIMEOUT,
    ConsumerGroupHeartbeat,
    TopicIdPartitions,
)
from odradek.core.groups.consumer_member import ConsumerMember, Partitions

MEMBER_ID_REQUIRED_SINCE: Final = 1
"""Since this version members generate their own ids."""


def check_heartbeat(command: ConsumerGroupHeartbeat, assignors: Sequence[str]) -> None:
    epoch = command.member_epoch
    if command.version >= MEMBER_ID_REQUIRED_SINCE or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        _check_text(command.member_id, "MemberId")
    _check_text(command.group_id, "GroupId")
    _check_text(command.instance_id, "InstanceId")
    _check_text(command.rack_id, "RackId")
    if epoch == JOINING_EPOCH:
        _check_join(command)
    elif epoch == LEAVING_FOR_A_WHILE_EPOCH and command.instance_id is None:
        raise KafkaError(ErrorCode.invalid_request, "InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE_EPOCH:
        raise KafkaError(ErrorCode.invalid_request, "MemberEpoch is invalid.")
    if command.server_assignor is not None and command.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {command.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(command: ConsumerGroupHeartbeat) -> None:
    if command.rebalance_timeout_ms == NO_TIMEOUT:
        raise KafkaError(ErrorCode.invalid_request, "RebalanceTimeoutMs must be provided in first request.")
    if command.owned is None or command.owned:
        raise KafkaError(ErrorCode.invalid_request, "TopicPartitions must be empty when (re-)joining.")
    if command.topic_names is None and command.topic_regex is None:
        message = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise KafkaError(ErrorCode.invalid_request, message)


def _check_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise KafkaError(ErrorCode.invalid_request, f"{name} can't be empty.")


def check_epoch(member: ConsumerMember, epoch: int, owned: Sequence[TopicIdPartitions] | None) -> None:
    """Accepts the previous epoch of the member if the response with the current one may have been lost."""
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    if epoch < member.epoch and epoch == member.previous_epoch and _is_within(owned, member.assigned):
        return
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({member.epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Sequence[TopicIdPartitions] | None, partitions: Partitions) -> bool:
    return owned is not None and all(
        one.topic_id in partitions and partitions[one.topic_id].keys() >= set(one.partitions) for one in owned
    )
