"""Responses to commands that no coordinator executes: it is loading, on another broker, or cannot write."""

from odradek.base.errors import ErrorCode
from odradek.core.append_errors import coordinator_error
from odradek.core.transactions.commands import (
    AddPartitions,
    AddPartitionsResponse,
    Command,
    EndTransaction,
    EndTransactionResponse,
    InitProducerId,
    InitProducerIdResponse,
    Response,
    VerifyPartitions,
    VerifyPartitionsResponse,
)


def error_response_of(command: Command, code: ErrorCode) -> Response:
    match command:
        case InitProducerId():
            return InitProducerIdResponse(code)
        case AddPartitions():
            return AddPartitionsResponse(code)
        case VerifyPartitions():
            return VerifyPartitionsResponse(code)
        case EndTransaction():
            return EndTransactionResponse(code)


def error_response(command: Command, error: ErrorCode) -> Response:
    """`error` is that of the partition, or of the coordinator's state."""
    return error_response_of(command, coordinator_error(error))
