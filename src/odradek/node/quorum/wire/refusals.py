"""Answers that carry an error and nothing of the quorum."""

from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.schemas import Message, Schema

# What `org.apache.kafka.common.protocol.Errors` has to say where nobody says more.
_MESSAGES: Final = {
    ErrorCode.none: "NONE",
}


class RefusedRequest(KafkaError):
    """Cannot be brought before the quorum. `answer` is what Kafka says to it."""

    def __init__(self, code: ErrorCode, answer: Message) -> None:
        super().__init__(code)
        self.answer = answer


def message_of(error: ErrorCode) -> str:
    return _MESSAGES.get(error, error.name.upper())


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
