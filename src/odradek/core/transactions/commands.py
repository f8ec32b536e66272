"""The commands of the transaction coordinator and its responses, independent of the wire format.

API handlers convert requests to commands, and responses back. Where the version of a request changes its meaning, the
command carries the transaction version: 2 if every end of a transaction increments the producer's epoch (KIP-890),
else 0.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

EPOCH_INCREMENTS_SINCE: Final = 2
"""Since this transaction version, the end of a transaction increments the producer epoch."""


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class InitProducerId(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    """The id and epoch that the producer has already (KIP-360)."""
    enable_two_phase_commit: bool = False
    keep_prepared: bool = False
    """The producer ends the open transaction, instead of having it aborted (KIP-939)."""


class InitProducerIdResponse(NamedTuple):
    error: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    ongoing: ProducerIdentity = NO_PRODUCER
    """The id and epoch of the transaction that was kept open."""


class AddPartitions(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    transaction_version: int


class AddPartitionsResponse(NamedTuple):
    """One error for all partitions."""

    error: ErrorCode


class VerifyPartitions(NamedTuple):
    """Sent by partition leaders: does the transaction include these partitions?"""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class VerifyPartitionsResponse(NamedTuple):
    error: ErrorCode
    """The error of all partitions, unless `errors` has one for the partition."""
    errors: Mapping[TopicPartition, ErrorCode] = {}

    def of(self, partition: TopicPartition) -> ErrorCode:
        return self.errors.get(partition, self.error)


class EndTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int


class EndTransactionResponse(NamedTuple):
    error: ErrorCode
    producer: ProducerIdentity = NO_PRODUCER
    """The producer's next id and epoch; since transaction version 2."""


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
    """The markers that the partition leaders have to write to end a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


Command = InitProducerId | AddPartitions | VerifyPartitions | EndTransaction
Response = InitProducerIdResponse | AddPartitionsResponse | VerifyPartitionsResponse | EndTransactionResponse
