"""Checks of a command that do not depend on its transaction, so that every broker can do them."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.transactions.commands import EPOCH_INCREMENTS_SINCE, Command, InitProducerId
from odradek.core.transactions.settings import TransactionSettings


def check(command: Command, settings: TransactionSettings, transaction_version: int) -> None:
    """Raises KafkaError."""
    if not command.transactional_id:
        raise KafkaError(ErrorCode.invalid_request)
    if not isinstance(command, InitProducerId):
        return
    if command.enable_two_phase_commit and not settings.two_phase_commit:
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    if command.keep_prepared and not (settings.two_phase_commit and transaction_version >= EPOCH_INCREMENTS_SINCE):
        raise KafkaError(ErrorCode.unsupported_version)
    has_timeout = not command.enable_two_phase_commit
    if has_timeout and not 0 < command.timeout_ms <= settings.timeout_max_ms:
        raise KafkaError(ErrorCode.invalid_transaction_timeout)
