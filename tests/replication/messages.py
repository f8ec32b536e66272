"""Messages between simulated brokers and the controller."""

from dataclasses import dataclass

from odradek.base.errors import ErrorCode
from odradek.core.replication.follower import FetchPosition, FetchResponse
from odradek.core.replication.isr import CommittedIsr, IsrProposal
from tests.replication.model_log import Record


@dataclass(frozen=True, slots=True)
class Fetch:
    replica_id: int
    broker_epoch: int
    position: FetchPosition


@dataclass(frozen=True, slots=True)
class Fetched:
    position: FetchPosition
    response: FetchResponse
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOffsets:
    replica_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ListedOffsets:
    leader_epoch: int
    error: ErrorCode
    start_offset: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class Register:
    broker_id: int
    life: int
    is_clean: bool


@dataclass(frozen=True, slots=True)
class Registered:
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    broker_id: int
    broker_epoch: int
    image_version: int
    wants_shutdown: bool


@dataclass(frozen=True, slots=True)
class AlterPartition:
    broker_id: int
    broker_epoch: int
    proposal: IsrProposal


@dataclass(frozen=True, slots=True)
class PartitionAltered:
    proposal: IsrProposal
    response: CommittedIsr | ErrorCode


Message = (
    Fetch
    | Fetched
    | ListOffsets
    | ListedOffsets
    | Register
    | Registered
    | Heartbeat
    | AlterPartition
    | PartitionAltered
)
