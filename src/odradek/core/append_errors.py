"""The error that a coordinator returns to clients when its partition rejects an append."""

from typing import Final

from odradek.base.errors import ErrorCode


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """Clients of a coordinator do not know its partition, so its errors are translated."""
    return _COORDINATOR_ERRORS.get(error, error)


_COORDINATOR_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}
