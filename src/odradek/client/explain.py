"""Turns an error into one line for the user: what failed, why, and what to do."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.errors import (
    CLOSED_BY_BROKER,
    ClientError,
    NotAuthenticated,
    NotSupportedByBroker,
    TimedOut,
    UnknownTopic,
    Unreachable,
)
from odradek.client.permissions import NotAuthorized
from odradek.config.problems import ConfigErrors
from odradek.text.errors import UserError, as_sentence, explain_os_error, nearest

EXIT_CODE = 2


def explain(error: BaseException) -> str | None:
    """Return the line for this error, or None if it is a bug, which keeps its traceback."""
    match error:
        case UserError() | ConfigErrors():
            return str(error)
        case UnknownTopic():
            return explain_unknown_topic(error.topic, error.known)
        case TimedOut() if error.code is ErrorCode.coordinator_not_available:
            return f"{error}. Check that enough brokers are running for the replication factor of the internal topics."
        case Unreachable() if all(one.reason == CLOSED_BY_BROKER for one in error.failures):
            return f"{error}. If the listener requires TLS or a login, add --command-config with its client properties."
        case Unreachable() | TimedOut():
            return f"{error}. Check --bootstrap and that the cluster is running (`odradek up` starts one)."
        case NotSupportedByBroker():
            return f"{error}. Use a broker's address for --bootstrap, not a controller's."
        case NotAuthenticated():
            return advise_on_security(str(error))
        case ClientError():
            return as_sentence(str(error))
        case KafkaError():
            return explain_error_code(error)
        case OSError():
            return explain_os_error(error)
    return None


def advise_on_security(message: str) -> str:
    """Add advice to the message of a NotAuthenticated."""
    return f"{as_sentence(message)} Check the security settings in the --command-config file."


def explain_unknown_topic(topic: str, known: tuple[str, ...]) -> str:
    suggestion = nearest(topic, known)
    if suggestion is not None:
        return f"Topic {topic!r} does not exist. Did you mean {suggestion!r}?"
    return (
        f"Topic {topic!r} does not exist. Create it with `odradek topic create {topic}`, or see `odradek topic list`."
    )


_ADVICE = {
    ErrorCode.topic_already_exists: "Choose another name, or change the topic with `odradek topic alter`.",
    ErrorCode.invalid_topic_exception: "Topic names have up to 249 characters: a-z A-Z 0-9 . _ -",
    ErrorCode.invalid_partitions: "Use a larger number for --partitions than the topic has now.",
    ErrorCode.invalid_replication_factor: "Use a --replication-factor no larger than the number of brokers.",
    ErrorCode.invalid_config: "Correct the value and try again.",
    ErrorCode.policy_violation: "A policy of the cluster forbids it. Contact the cluster's administrator.",
    ErrorCode.topic_authorization_failed: "Ask the cluster's administrator for access to the topic.",
    ErrorCode.cluster_authorization_failed: "Ask the cluster's administrator for access.",
    ErrorCode.message_too_large: "Raise the topic's max.message.bytes, or send smaller records.",
    ErrorCode.not_enough_replicas: "Start the missing brokers, or lower the topic's min.insync.replicas.",
    ErrorCode.offset_out_of_range: "Start with --from beginning or --from end.",
    ErrorCode.kafka_storage_error: "Check the broker's log: its disk has failed or is full.",
    ErrorCode.broker_not_available: "Check `odradek cluster` and the logs of the brokers.",
    ErrorCode.mismatched_endpoint_type: "Use a broker's address for --bootstrap, not a controller's.",
    ErrorCode.inconsistent_cluster_id: "The node was formatted for another cluster. Format it for this one.",
    ErrorCode.duplicate_voter: "`odradek quorum status` shows the voters.",
    ErrorCode.voter_not_found: "`odradek quorum status` shows the voters.",
    ErrorCode.unsupported_version: "Check the versions of the brokers: at least one does not support this.",
    ErrorCode.topic_deletion_disabled: "Set delete.topic.enable=true on the brokers.",
    ErrorCode.unsupported_compression_type: "Choose another --compression.",
    ErrorCode.invalid_record: "Records of a compacted topic need a key. Use --key or --key-separator.",
    ErrorCode.group_id_not_found: "`odradek group list` shows all groups.",
    ErrorCode.invalid_group_id: "Use a group ID that is not empty.",
    ErrorCode.non_empty_group: "Stop the group's members first.",
    ErrorCode.unknown_member_id: "The group has active members. Stop them first.",
    ErrorCode.group_subscribed_to_topic: "Stop the group's members that are subscribed to the topic first.",
    ErrorCode.group_authorization_failed: "Ask the cluster's administrator for access to the group.",
    ErrorCode.transactional_id_not_found: "`odradek txn list` shows all transactional IDs.",
    ErrorCode.transactional_id_authorization_failed: (
        "Ask the cluster's administrator for access to the transactional ID."
    ),
    ErrorCode.invalid_producer_epoch: "The producer has another epoch. `odradek txn producers` shows it.",
    ErrorCode.invalid_regular_expression: "Correct the pattern. It uses RE2 syntax.",
    ErrorCode.transaction_coordinator_fenced: "A newer coordinator has taken over and ends the transaction itself.",
    ErrorCode.delegation_token_auth_disabled: "Set delegation.token.secret.key on all nodes.",
    ErrorCode.delegation_token_request_not_allowed: (
        "Log in over TLS or SASL with --command-config, and not with a delegation token."
    ),
    ErrorCode.delegation_token_owner_mismatch: "Log in as the token's owner or as one of its renewers.",
    ErrorCode.delegation_token_authorization_failed: "Ask the cluster's administrator for CREATE_TOKENS on the owner.",
    ErrorCode.delegation_token_not_found: "`odradek token list` shows your tokens.",
    ErrorCode.delegation_token_expired: "Create a new one with `odradek token create`.",
    ErrorCode.invalid_principal_type: "Renewers must be users, such as User:alice.",
    ErrorCode.security_disabled: "Without authorizer.class.name on the nodes, every client may do everything.",
    ErrorCode.resource_not_found: "`odradek user list` shows all users.",
    ErrorCode.invalid_timestamp: "Check the topic's message.timestamp.before.max.ms and ….after.max.ms.",
}


def explain_error_code(error: KafkaError) -> str:
    denial = error.explanation() if isinstance(error, NotAuthorized) else None
    if denial is not None:
        return " ".join(denial.split())
    reason = _one_line(error.message) if error.message else error.code.name.replace("_", " ")
    line = f"Request rejected: {reason} ({error.code.name.upper()})."
    advice = _ADVICE.get(error.code)
    return f"{line} {advice}" if advice else line


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
