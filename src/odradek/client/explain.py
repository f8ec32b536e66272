"""One line for a person about a failed request or a mistake: what failed, why, and what to do about it."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.errors import (
    ClientError,
    NotAuthenticated,
    NotSupportedByBroker,
    TimedOut,
    UnknownTopic,
    Unreachable,
)
from odradek.config.problems import ConfigErrors
from odradek.text.errors import UserError, explain_os_error, nearest

EXIT_CODE = 2


def explain(error: BaseException) -> str | None:
    """The line for this error, or None if it is a defect of the program and deserves its traceback."""
    match error:
        case UserError() | ConfigErrors():
            return str(error)
        case UnknownTopic():
            return explain_unknown_topic(error.topic, error.known)
        case TimedOut() if error.code is ErrorCode.coordinator_not_available:
            return f"{error}: look whether as many brokers run as the replication factor of the internal topics wants"
        case Unreachable() | TimedOut():
            return f"{error}: check --bootstrap, and that the cluster runs (`odradek up` starts one)"
        case NotSupportedByBroker():
            return f"{error}: name a broker's port in --bootstrap, not a controller's"
        case NotAuthenticated():
            return advise_on_security(str(error))
        case ClientError():
            return str(error)
        case KafkaError():
            return explain_refusal(error)
        case OSError():
            return explain_os_error(error)
    return None


def advise_on_security(told: str) -> str:
    """Of a broker that does not know this client, or that this client does not trust."""
    return f"{told}: check the file of --command-config"


def explain_unknown_topic(topic: str, known: tuple[str, ...]) -> str:
    meant = nearest(topic, known)
    if meant is not None:
        return f"there is no topic {topic!r}; did you mean {meant!r}?"
    return f"there is no topic {topic!r}: `odradek topic list` shows all, `odradek topic create {topic}` creates it"


_ADVICE = {
    ErrorCode.topic_already_exists: "choose another name, or change it with `odradek topic alter`",
    ErrorCode.invalid_topic_exception: "a topic's name has at most 249 of the characters a-z A-Z 0-9 . _ -",
    ErrorCode.invalid_partitions: "give --partitions a larger number than there is",
    ErrorCode.invalid_replication_factor: "give --replication-factor no more than there are brokers",
    ErrorCode.invalid_config: "mend the value, and try again",
    ErrorCode.policy_violation: "the cluster's policy forbids it: ask who runs it",
    ErrorCode.topic_authorization_failed: "ask who runs the cluster for access to the topic",
    ErrorCode.cluster_authorization_failed: "ask who runs the cluster for access",
    ErrorCode.message_too_large: "raise the topic's max.message.bytes, or send less in one record",
    ErrorCode.not_enough_replicas: "start the missing brokers, or lower the topic's min.insync.replicas",
    ErrorCode.offset_out_of_range: "start with --from beginning or --from end",
    ErrorCode.kafka_storage_error: "look into the broker's log: its disk failed or is full",
    ErrorCode.broker_not_available: "look at the brokers that are there, and at their logs",
    ErrorCode.mismatched_endpoint_type: "name a broker's port in --bootstrap, not a controller's",
    ErrorCode.inconsistent_cluster_id: "the node was formatted for another cluster: format it for this one",
    ErrorCode.duplicate_voter: "`odradek quorum status` shows who votes",
    ErrorCode.voter_not_found: "`odradek quorum status` shows who votes",
    ErrorCode.unsupported_version: "look at the versions of the brokers: one of them does not know this yet",
    ErrorCode.topic_deletion_disabled: "set delete.topic.enable=true on the brokers",
    ErrorCode.unsupported_compression_type: "choose another --compression",
    ErrorCode.invalid_record: "a compacted topic wants a key on every record: give --key or --key-separator",
    ErrorCode.group_id_not_found: "`odradek group list` shows all",
    ErrorCode.invalid_group_id: "give the group a name",
    ErrorCode.non_empty_group: "stop its members first",
    ErrorCode.unknown_member_id: "the group has members now: stop them first",
    ErrorCode.group_subscribed_to_topic: "stop the members that read the topic first",
    ErrorCode.group_authorization_failed: "ask who runs the cluster for access to the group",
    ErrorCode.transactional_id_not_found: "`odradek txn list` shows all",
    ErrorCode.transactional_id_authorization_failed: "ask who runs the cluster for access to the transactional id",
    ErrorCode.invalid_producer_epoch: "the producer has another epoch: `odradek txn producers` shows it",
    ErrorCode.invalid_regular_expression: "mend the pattern: its syntax is RE2's",
    ErrorCode.transaction_coordinator_fenced: "a newer coordinator has taken over: it ends the transaction itself",
    ErrorCode.invalid_timestamp: "look at the topic's message.timestamp.before.max.ms and …after.max.ms",
}


def explain_refusal(error: KafkaError) -> str:
    said = _one_line(error.message) if error.message else error.code.name.replace("_", " ")
    advice = _ADVICE.get(error.code)
    line = f"the cluster refuses: {said} ({error.code.name.upper()})"
    return f"{line}; {advice}" if advice else line


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
