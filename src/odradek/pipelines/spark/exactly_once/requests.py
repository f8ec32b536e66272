"""The protocol's requests to brokers, and their errors."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from odradek.pipelines.spark.exactly_once.states import Producer, State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Returns a Producer. Aborts the ID's open transaction."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ReadState:
    """Returns the last committed state, or None if none was ever written."""

    sink: str


@dataclass(frozen=True, slots=True)
class WriteState:
    """Writes in a transaction of the sink's own ID. Returns the producer for the next write."""

    sink: str
    producer: Producer
    state: State


@dataclass(frozen=True, slots=True)
class ListOpen:
    """Returns all open transactions with this ID prefix, as Prepared."""

    prefix: str


@dataclass(frozen=True, slots=True)
class FindOpen:
    """Like ListOpen for these IDs. Queries each ID's coordinator, even if coordinators change."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Returns the producer for the next write. Idempotent."""

    transactional_id: str
    producer: Producer
    committed: bool


@dataclass(frozen=True, slots=True)
class NextTicket:
    """Returns a number that no ticket has had. Later tickets have this number or higher ones."""

    sink: str


@dataclass(frozen=True, slots=True)
class TakeTicket:
    """Returns a unique number. If there is no response, the number stays unused."""

    sink: str


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes all rows of a task. Returns when all are acknowledged."""

    transactional_id: str
    producer: Producer


Request = (
    InitProducer | ReadState | WriteState | ListOpen | FindOpen | EndTransaction | NextTicket | TakeTicket | WriteRows
)
Steps = Generator[Request, Any, T]


class Fenced(Exception):
    """Another producer has a later epoch."""


class EndedDifferently(Exception):
    """The transaction has ended, but not as requested."""


class OutcomeUnknown(Exception):
    """No response: the request may have been executed, or may still be."""


class BatchLost(Exception):
    """A decided transaction was aborted by its timeout. The sink stops until the user has checked the topic."""

    def __init__(self, batch: int, transactional_id: str) -> None:
        super().__init__(
            f"Batch {batch} was decided, but its transaction {transactional_id} timed out before it was committed. "
            "Other parts of the batch may be visible. Compare the topic with the source for this batch, then start a "
            "new query with another kafka.transactional.id."
        )


class NotDecided(Exception):
    """A prepared transaction timed out before its batch was decided. Nothing is visible, so the batch is repeated."""

    def __init__(self, batch: int, transactional_id: str) -> None:
        super().__init__(
            f"Transaction {transactional_id} of batch {batch} timed out before the batch was decided, so nothing of "
            "it is "
            "visible. Restart the query. To prevent this, raise the brokers' transaction.max.timeout.ms, enable "
            "two-phase commit, or use smaller batches."
        )


class Superseded(Exception):
    """Another driver has taken over, or another query uses the sink's ID."""


def retry_until_known(request: Request) -> Steps[Any]:
    """Repeat an idempotent request until its outcome is known."""
    while True:
        try:
            return (yield request)
        except OutcomeUnknown:
            continue
