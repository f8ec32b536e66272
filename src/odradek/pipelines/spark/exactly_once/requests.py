"""What the protocol asks of brokers, and how that can fail."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from odradek.pipelines.spark.exactly_once.states import Producer, State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Answered by a Producer. Aborts what is open under the id."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ReadState:
    """Answered by the last committed state, or None: no state was ever written."""

    sink: str


@dataclass(frozen=True, slots=True)
class WriteState:
    """In a transaction of the sink's own id. Answered by the producer that may write next."""

    sink: str
    producer: Producer
    state: State


@dataclass(frozen=True, slots=True)
class ListOpen:
    """Answered by all open transactions whose ids begin so, as Prepared."""

    prefix: str


@dataclass(frozen=True, slots=True)
class FindOpen:
    """As ListOpen, for these ids; each is asked for where it belongs, also while coordinators move."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Answered by the producer that may write next. Repeated it is answered the same."""

    transactional_id: str
    producer: Producer
    committed: bool


@dataclass(frozen=True, slots=True)
class NextTicket:
    """Answered by a number that no ticket has had before; later tickets have it or a higher one."""

    sink: str


@dataclass(frozen=True, slots=True)
class TakeTicket:
    """Answered by a number that nobody else gets. Without an answer it is lost."""

    sink: str


@dataclass(frozen=True, slots=True)
class WriteRows:
    """All rows of a task; answered when all are acknowledged."""

    transactional_id: str
    producer: Producer


Request = (
    InitProducer | ReadState | WriteState | ListOpen | FindOpen | EndTransaction | NextTicket | TakeTicket | WriteRows
)
Steps = Generator[Request, Any, T]


class Fenced(Exception):
    """The producer's epoch is over: somebody else has its place."""


class EndedDifferently(Exception):
    """The transaction is ended, and not as asked for."""


class OutcomeUnknown(Exception):
    """No answer: it was done, or not, or will be."""


class BatchLost(Exception):
    """A decided transaction was aborted by its timeout: the sink stops, and a person has to look."""

    def __init__(self, batch: int, transactional_id: str) -> None:
        super().__init__(
            f"Batch {batch} was decided, but its transaction {transactional_id} timed out before it was committed. "
            "Other parts of the batch may be visible. Compare the topic with the source for this batch, then start a "
            "new query with another kafka.transactional.id."
        )


class NotDecided(Exception):
    """A prepared transaction timed out before its batch was decided: nothing is visible, the batch is written again."""

    def __init__(self, batch: int, transactional_id: str) -> None:
        super().__init__(
            f"Transaction {transactional_id} of batch {batch} timed out before the batch was decided, so nothing of "
            "it is "
            "visible. Restart the query. To prevent this, raise the brokers' transaction.max.timeout.ms, enable "
            "two-phase commit, or use smaller batches."
        )


class Superseded(Exception):
    """Another driver has taken over, or another query has the sink's name."""


def retry_until_known(request: Request) -> Steps[Any]:
    """For what may be repeated."""
    while True:
        try:
            return (yield request)
        except OutcomeUnknown:
            continue
