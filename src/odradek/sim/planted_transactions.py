"""Planted bugs of transactions: fencing, markers, isolation of readers, and failover."""

from functools import partial
from typing import Any, Final

from odradek.base.errors import ErrorCode
from odradek.broker.apis.transaction_verification import TransactionVerifier
from odradek.broker.coordinators.marker_sender import MarkerSender
from odradek.core.groups.coordinator import GroupCoordinator
from odradek.core.transactions import coordinator as coordinator_module
from odradek.core.transactions.commands import InitProducerIdResponse
from odradek.core.transactions.coordinator import TransactionCoordinator
from odradek.core.transactions.transaction_metadata import State, prepare_epoch_increment
from odradek.sim.planted_bug import Breaks, always, plant
from odradek.sim.scenarios import TRANSACTIONS
from odradek.storage.log.partition_log import PartitionLog
from odradek.storage.log.verification import Verifications


def _end_in_any_epoch(sound: Any) -> Any:
    def is_repeated(now: Any, command: Any) -> bool:
        return bool(sound(now, command._replace(producer_epoch=now.producer.producer_epoch)))

    return is_repeated


def _init_without_abort(sound: Any) -> Any:
    def fence(self: TransactionCoordinator, transaction: Any, token: Any, response: Any, now_ms: int) -> Any:
        if response is None:
            return sound(self, transaction, token, response, now_ms)
        metadata = transaction.metadata
        after = prepare_epoch_increment(metadata, None, metadata.timeout_ms, now_ms)
        return self._write(transaction, after, token, InitProducerIdResponse(ErrorCode.none, after.producer))

    return fence


def _keep_the_epoch(sound: Any) -> Any:
    def keep_epoch(now: Any, expected_epoch: Any, timeout_ms: int, now_ms: int) -> Any:
        after = sound(now, expected_epoch, timeout_ms, now_ms)
        return after._replace(producer_epoch=max(now.producer_epoch, 0))

    return keep_epoch


def _abort_at_load(sound: Any) -> Any:
    def on_loaded(self: TransactionCoordinator, now_ms: int) -> Any:
        for transaction in self:
            if transaction.metadata.state is State.PREPARE_COMMIT:
                transaction.metadata = transaction.metadata._replace(state=State.PREPARE_ABORT)
        return sound(self, now_ms)

    return on_loaded


def _count_all_as_written(sound: Any) -> Any:
    def on_response(self: MarkerSender, pending: Any, errors: Any) -> None:
        pending.on_written(pending.markers.partitions)

    return on_response


def _high_watermark(sound: Any) -> Any:
    def last_stable_offset(self: PartitionLog, high_watermark: int) -> int:
        return high_watermark

    return last_stable_offset


def _always_commit(sound: Any) -> Any:
    def replay_marker(self: GroupCoordinator, producer_id: int, *, commits: bool, offset: int) -> None:
        sound(self, producer_id, commits=True, offset=offset)

    return replay_marker


def _swap_decision(sound: Any) -> Any:
    def prepare_end(now: Any, *, commits: bool, **others: Any) -> Any:
        # Only with several partitions.
        return sound(now, commits=commits or len(now.partitions) > 1, **others)

    return prepare_end


_bug: Final = partial(plant, scenario=TRANSACTIONS)
_NOTHING: Final[Breaks] = always(None)

TRANSACTION_BUGS: Final = (
    _bug(
        "end-txn-with-stale-epoch",
        "a fenced producer may end the transaction of its successor",
        coordinator_module,
        "is_repeated",
        _end_in_any_epoch,
        (coordinator_module, "is_repeated_before_epoch_increments", _end_in_any_epoch),
    ),
    _bug(
        "init-producer-id-keeps-open-transaction",
        "InitProducerId does not abort the open transaction",
        TransactionCoordinator,
        "_fence",
        _init_without_abort,
        (coordinator_module, "assert_transition", _NOTHING),
    ),
    _bug(
        "producer-epoch-not-incremented",
        "InitProducerId does not increment the producer epoch",
        coordinator_module,
        "prepare_epoch_increment",
        _keep_the_epoch,
    ),
    _bug(
        "transaction-not-verified",
        "partitions write without verification by the coordinator",
        TransactionVerifier,
        "begin",
        _NOTHING,
        (Verifications, "check", _NOTHING),
    ),
    _bug(
        "markers-not-resumed-at-load",
        "a new coordinator does not send the markers of prepared transactions",
        TransactionCoordinator,
        "on_loaded",
        always([]),
    ),
    _bug(
        "commit-aborted-at-load",
        "a new coordinator aborts transactions in PrepareCommit",
        TransactionCoordinator,
        "on_loaded",
        _abort_at_load,
    ),
    _bug(
        "rejected-markers-treated-as-written",
        "a rejected marker counts as written",
        MarkerSender,
        "_on_response",
        _count_all_as_written,
    ),
    _bug("markers-not-retried", "failed markers are not retried", MarkerSender, "_retry", _NOTHING),
    _bug(
        "aborted-transactions-not-returned",
        "Fetch responses omit aborted transactions",
        PartitionLog,
        "aborted_transactions",
        always([]),
    ),
    _bug(
        "last-stable-offset-ignored",
        "read_committed consumers get records of open transactions",
        PartitionLog,
        "last_stable_offset",
        _high_watermark,
    ),
    _bug(
        "aborted-offsets-committed",
        "offsets are committed although their transaction is aborted",
        GroupCoordinator,
        "replay_marker",
        _always_commit,
    ),
    _bug(
        "committed-offsets-dropped",
        "offsets are discarded when their transaction commits",
        GroupCoordinator,
        "replay_marker",
        _NOTHING,
    ),
    _bug(
        "abort-recorded-as-commit",
        "an abort over several partitions is recorded as a commit",
        coordinator_module,
        "prepare_end",
        _swap_decision,
    ),
)
