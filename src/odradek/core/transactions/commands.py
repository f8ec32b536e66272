"""What can be asked of a transaction coordinator, and what it answers, free of the wire's encoding.

Handlers translate requests into these and answers back; the coordinator knows nothing of either. Where a version of an
API changes what is done, the command carries the transaction version that it stands for: 2 where every end of a
transaction raises the producer's epoch (KIP-890), 0 where none does.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

EPOCHS_RISE_SINCE: Final = 2
"""From this transaction version on, the end of a transaction raises the epoch."""


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class InitProducerId(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    """Who asks, if it has been somebody before (KIP-360)."""
    enable_two_phase_commit: bool = False
    keep_prepared: bool = False
    """The open transaction is to be ended by whoever asks, not aborted (KIP-939)."""


class InitAnswer(NamedTuple):
    error: ErrorCode
    producer: ProducerIdentity = NOBODY
    ongoing: ProducerIdentity = NOBODY
    """Whose transaction was kept open."""


class AddPartitions(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    transaction_version: int


class AddPartitionsAnswer(NamedTuple):
    """The same for all partitions."""

    error: ErrorCode


class VerifyPartitions(NamedTuple):
    """Asked by the leaders of partitions: do they belong to the transaction?"""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class VerifyAnswer(NamedTuple):
    error: ErrorCode
    """Of all partitions alike; `errors` is for each, where there is none."""
    errors: Mapping[TopicPartition, ErrorCode] = {}

    def of(self, partition: TopicPartition) -> ErrorCode:
        return self.errors.get(partition, self.error)


class EndTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int


class EndAnswer(NamedTuple):
    error: ErrorCode
    producer: ProducerIdentity = NOBODY
    """Who the producer is from now on; only where ends raise epochs."""


class DescribedTransaction(NamedTuple):
    transactional_id: str
    error: ErrorCode
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer: ProducerIdentity = ProducerIdentity(0, 0)
    partitions: tuple[TopicPartition, ...] = ()


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class Markers(NamedTuple):
    """Which a coordinator wants written by the leaders of partitions, to end a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


Command = InitProducerId | AddPartitions | VerifyPartitions | EndTransaction
Answer = InitAnswer | AddPartitionsAnswer | VerifyAnswer | EndAnswer
