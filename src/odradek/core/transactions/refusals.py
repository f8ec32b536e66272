"""What a command is answered where no coordinator takes it: it is loading, elsewhere, or could not write."""

from odradek.base.errors import ErrorCode
from odradek.core.append_refusals import refusal_of_append
from odradek.core.transactions.commands import (
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    Command,
    EndAnswer,
    EndTransaction,
    InitAnswer,
    InitProducerId,
    VerifyAnswer,
    VerifyPartitions,
)


def refuse_like(command: Command, code: ErrorCode) -> Answer:
    match command:
        case InitProducerId():
            return InitAnswer(code)
        case AddPartitions():
            return AddPartitionsAnswer(code)
        case VerifyPartitions():
            return VerifyAnswer(code)
        case EndTransaction():
            return EndAnswer(code)


def refuse(command: Command, error: ErrorCode) -> Answer:
    """`error` as the partition or its loading gives it."""
    return refuse_like(command, refusal_of_append(error))
