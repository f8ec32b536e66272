"""Explains errors in one or two sentences: the rule, the value, and what to change.

The cluster's own message comes first, then what the user can do.
"""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.errors import (
    ClientError,
    NotAuthenticated,
    NotSupportedByBroker,
    TimedOut,
    UnknownTopic,
    Unreachable,
)
from odradek.client.permissions import NotAuthorized
from odradek.console.readings.health import describe_down_brokers, missing_brokers
from odradek.console.readings.snapshot import ClusterSnapshot
from odradek.console.readings.table import inert

_ADVICE: Final = {
    ErrorCode.topic_already_exists: "Choose another name.",
    ErrorCode.unknown_topic_or_partition: "It may have been deleted. See the list of topics.",
    ErrorCode.invalid_topic_exception: "A name has at most 249 characters of a-z A-Z 0-9 . _ -",
    ErrorCode.invalid_partitions: "Partitions can only be added. Enter a number larger than the current one.",
    ErrorCode.invalid_replication_factor: "Enter at most as many replicas as there are online brokers.",
    ErrorCode.invalid_replica_assignment: "Enter only registered brokers, each once.",
    ErrorCode.invalid_config: "Change the value and try again.",
    ErrorCode.invalid_request: "Correct the input and try again.",
    ErrorCode.policy_violation: "A policy of the cluster forbids this. Ask the cluster's administrator.",
    ErrorCode.topic_authorization_failed: "Ask the cluster's administrator for access to the topic.",
    ErrorCode.group_authorization_failed: "Ask the cluster's administrator for access to the group.",
    ErrorCode.cluster_authorization_failed: "Ask the cluster's administrator for access.",
    ErrorCode.message_too_large: "Send a smaller record, or increase the topic's max.message.bytes.",
    ErrorCode.offset_out_of_range: "Choose an offset that is still in the log.",
    ErrorCode.kafka_storage_error: "A disk failed or is full. Check the broker's log.",
    ErrorCode.broker_not_available: "See the list of brokers for the ones that are online.",
    ErrorCode.topic_deletion_disabled: "Set delete.topic.enable=true on the brokers.",
    ErrorCode.invalid_record: "A compacted topic requires a key on every record.",
    ErrorCode.non_empty_group: "Stop the group's members first.",
    ErrorCode.unknown_member_id: "The group has members now: stop them first.",
    ErrorCode.group_subscribed_to_topic: "Stop the members that read the topic first.",
    ErrorCode.group_id_not_found: "It may have been deleted. See the list of groups.",
    ErrorCode.no_reassignment_in_progress: "The reassignment is already complete.",
    ErrorCode.preferred_leader_not_available: "The preferred leader must be online and in sync.",
    ErrorCode.eligible_leaders_not_available: "Start the brokers that hold an in-sync replica.",
    ErrorCode.unsupported_version: "A broker does not support this. Check the broker versions.",
    ErrorCode.reassignment_in_progress: "Wait until the reassignment is complete, or cancel it.",
    ErrorCode.throttling_quota_exceeded: "The cluster limits the rate of changes. Wait and try again.",
}


def explain(error: Exception, snapshot: ClusterSnapshot | None = None, partition: TopicPartition | None = None) -> str:
    """Names replicas and brokers if `snapshot` and `partition` are given."""
    match error:
        case UnknownTopic():
            return f"Topic {inert(error.topic)!r} does not exist. It may have been deleted."
        case Unreachable():
            return _sentence(f"{error}. Check that the cluster is running and that --bootstrap lists its brokers")
        case TimedOut():
            return _sentence(f"{error}") + (_replicas(snapshot, partition) or " Check the brokers and try again.")
        case NotSupportedByBroker():
            return _sentence(f"{error}: the broker is too old, or this is a controller's port")
        case NotAuthenticated():
            return _sentence(f"{error}. Check the --command-config file that the console was started with")
        case ClientError():
            return _sentence(str(error))
        case KafkaError():
            return _refusal(error, snapshot, partition)
    return _sentence(str(error))


def _refusal(error: KafkaError, snapshot: ClusterSnapshot | None, partition: TopicPartition | None) -> str:
    denial = error.explanation() if isinstance(error, NotAuthorized) else None
    if denial is not None:
        return inert(denial)
    said = " ".join((error.message or error.code.name.replace("_", " ")).split()).rstrip(".")
    message = f"Rejected with {error.code.name.upper()}: {inert(said)}."
    if error.code in (ErrorCode.not_enough_replicas, ErrorCode.not_enough_replicas_after_append):
        return message + (_replicas(snapshot, partition) or " Start the missing brokers, or lower min.insync.replicas.")
    advice = _ADVICE.get(error.code)
    return f"{message} {advice}" if advice else message


def _replicas(snapshot: ClusterSnapshot | None, partition: TopicPartition | None) -> str | None:
    """`orders-0 has 1 of the 2 in-sync replicas that min.insync.replicas requires, because broker 3 is down`."""
    if snapshot is None or partition is None or partition not in snapshot.partitions:
        return None
    layout = snapshot.partitions[partition]
    wanted = snapshot.needed_in_sync(partition.topic, layout)
    missing = missing_brokers(snapshot, [partition])
    because = f", because {describe_down_brokers(snapshot, missing)}" if missing else ""
    if layout.leader < 0:
        return f" {inert(str(partition))} has no leader{because}. Start one of brokers {layout.replicas}."
    if len(layout.isr) >= wanted:
        return None
    return (
        f" {inert(str(partition))} has {len(layout.isr)} of the {wanted} in-sync replicas that"
        f" min.insync.replicas requires{because}. Start the missing brokers, or lower min.insync.replicas of the topic."
    )


def _sentence(text: str) -> str:
    text = inert(text)
    return text[:1].upper() + text[1:].rstrip(".") + "."
