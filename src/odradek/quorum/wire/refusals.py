"""Responses with an error and nothing about the quorum."""

from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.wire.schemas import Message, Schema

# Kafka's default messages.
_MESSAGES: Final = {
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.not_leader_or_follower: (
        "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
        "For requests intended for any replica, this error indicates that the broker is not a replica of the topic "
        "partition."
    ),
    ErrorCode.request_timed_out: "The request timed out.",
    ErrorCode.broker_not_available: "The broker is not available.",
    ErrorCode.not_controller: "This is not the correct controller for this cluster.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.unknown_server_error: "The server experienced an unexpected error when processing the request.",
    ErrorCode.duplicate_voter: "The voter is already part of the set of voters.",
    ErrorCode.voter_not_found: "The voter is not part of the set of voters.",
}


class RefusedRequest(KafkaError):
    """The request is invalid. `response` is Kafka's response to it."""

    def __init__(self, code: ErrorCode, response: Message) -> None:
        super().__init__(code)
        self.response = response


class UnsupportedRequest(KafkaError):
    """This version of the API cannot represent the request, as if the peer did not serve it."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.unsupported_version, message)


def message_of(error: ErrorCode) -> str | None:
    return None if error is ErrorCode.none else _MESSAGES.get(error, error.name.upper())


def refuse(schema: Schema, error: ErrorCode) -> Message:
    values: dict[str, object] = {
        "throttle_time": timedelta(0),
        "error_code": error,
        "error_message": message_of(error),
        "session_id": 0,
        "topics": (),
        "responses": (),
        "nodes": (),
    }
    if schema.knows("CurrentLeader"):
        values["current_leader"] = schema.new("CurrentLeader", leader_id=-1, leader_epoch=-1, host="", port=0)
    return schema.new(schema.response_type.__name__, **values)


def invalid(schema: Schema) -> RefusedRequest:
    return RefusedRequest(ErrorCode.invalid_request, refuse(schema, ErrorCode.invalid_request))
