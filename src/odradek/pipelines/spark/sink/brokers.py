"""Executes the protocol's requests on real brokers."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.cluster import Cluster
from odradek.client.errors import ConnectionFailed, NotYet, TimedOut, Unreachable
from odradek.client.producer_transactions import TransactionHandle, TransactionTerms, end_transaction, init_producer
from odradek.client.transactions import TransactionDescription, Transactions
from odradek.core.transactions.commands import ProducerIdentity
from odradek.pipelines.spark.exactly_once.names import is_task_id
from odradek.pipelines.spark.exactly_once.requests import (
    EndedDifferently,
    EndTransaction,
    Fenced,
    FindOpen,
    InitProducer,
    ListOpen,
    NextTicket,
    OutcomeUnknown,
    ReadState,
    Request,
    Steps,
    TakeTicket,
    WriteRows,
    WriteState,
)
from odradek.pipelines.spark.exactly_once.states import Prepared, Producer
from odradek.pipelines.spark.sink.decision_log import DecisionLog

T = TypeVar("T")

# For the driver's own transactions of one record, because readers wait for their end.
_DRIVER_TIMEOUT_MS: Final = 10_000
_ONGOING: Final = "Ongoing"
_REPLACED: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transactional_id_not_found,
    }
)
_ENDED: Final = frozenset({ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable})
# Error codes of a partition that no longer knows the transaction.
_FORGOTTEN: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id})

# How long to retry without a response.
PATIENCE_S: Final = 120.0
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0


def drive(steps: Steps[T], handle: Callable[[Request], Any], *, patience_s: float = PATIENCE_S) -> T:
    """Run the steps to their end.

    Raises what they raise, and OutcomeUnknown if there is no response for too long. The next driver then continues, as
    after a crash.
    """
    result: Any = None
    failure: Exception | None = None
    pause_s, failing_since = _FIRST_PAUSE_S, time.monotonic()
    while True:
        try:
            request = steps.send(result) if failure is None else steps.throw(failure)
        except StopIteration as end:
            final: T = end.value
            return final
        result, failure = None, None
        try:
            result = handle(request)
        except (Fenced, EndedDifferently) as error:
            failure = error
        except OutcomeUnknown as error:
            if time.monotonic() - failing_since > patience_s:
                raise
            failure = error
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            continue
        pause_s, failing_since = _FIRST_PAUSE_S, time.monotonic()


class Brokers:
    """Handles the requests of one sink. `write_rows` writes all rows of a task and waits for acknowledgement."""

    def __init__(
        self,
        cluster: Cluster,
        sink: str,
        terms: TransactionTerms,
        log: DecisionLog,
        *,
        write_rows: Callable[[TransactionHandle], None] | None = None,
    ) -> None:
        self._cluster: Final = cluster
        self._sink: Final = sink
        self._terms: Final = terms
        self._log: Final = log
        self._write_rows: Final = write_rows

    def handle(self, request: Request) -> Any:
        """Raise Fenced, EndedDifferently or OutcomeUnknown, which the protocol handles. Other errors end the query."""
        try:
            return self._handle(request)
        except (ConnectionFailed, Unreachable, NotYet, TimedOut) as error:
            raise OutcomeUnknown(str(error)) from error

    def _handle(self, request: Request) -> Any:
        match request:
            case InitProducer(name):
                return self._init(name)
            case ReadState():
                return self._log.read()
            case WriteState(sink, producer, state):
                member = self._member(sink, producer)
                with _raise_fenced(_REPLACED | _ENDED | _FORGOTTEN):
                    self._log.write(member, state)
                    following = end_transaction(self._cluster, member, commits=True)
                return Producer(*following, written=0 if self._terms.epochs_rise else producer.written + 1)
            case ListOpen(prefix):
                return self._find_open(self._list_open_ids(prefix))
            case FindOpen(names):
                return self._find_open(names)
            case EndTransaction(name, producer, committed):
                with _raise_fenced(_REPLACED), _raise_ended():
                    return Producer(*end_transaction(self._cluster, self._member(name, producer), commits=committed))
            case NextTicket():
                return self._log.next_ticket()
            case TakeTicket():
                return self._log.take_ticket()
            case WriteRows(name, producer):
                assert self._write_rows is not None, "a driver has no rows"
                with _raise_fenced(_REPLACED | _ENDED | _FORGOTTEN):
                    self._write_rows(self._member(name, producer))
                return None

    def _init(self, name: str) -> Producer:
        is_driver = name == self._sink
        timeout_ms = self._terms.timeout_ms_max
        try:
            found = init_producer(
                self._cluster,
                name,
                timeout_ms=min(_DRIVER_TIMEOUT_MS, timeout_ms) if is_driver else timeout_ms,
                in_two_phases=self._terms.in_two_phases and not is_driver,
            )
        except KafkaError as error:
            if error.code.retriable:
                raise OutcomeUnknown(str(error)) from error
            raise
        return Producer(*found)

    def _list_open_ids(self, prefix: str) -> list[str]:
        """Filter the result, because old brokers ignore the pattern."""
        found = Transactions(self._cluster).listings(states=[_ONGOING], pattern=re.escape(prefix) + ".*")
        return [one.transactional_id for one in found if is_task_id(prefix, one.transactional_id)]

    def _find_open(self, names: Iterable[str]) -> list[Prepared]:
        return [
            Prepared(name, Producer(found.producer_id, found.producer_epoch))
            for name, found in Transactions(self._cluster).describe(names).items()
            if isinstance(found, TransactionDescription) and found.state == _ONGOING
        ]

    def _member(self, name: str, producer: Producer) -> TransactionHandle:
        return TransactionHandle(
            transactional_id=name,
            producer=ProducerIdentity(producer.producer_id, producer.epoch),
            epochs_rise=self._terms.epochs_rise,
            first_sequence=producer.written,
        )


@contextmanager
def _raise_fenced(codes: frozenset[ErrorCode]) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code not in codes:
            raise
        raise Fenced(f"Another writer has taken over ({error}).") from error


@contextmanager
def _raise_ended() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code not in _ENDED:
            raise
        raise EndedDifferently(str(error)) from error
