"""The commands of the controller and what each returns, independent of the wire format and its versions.

API modules translate requests into commands and results into responses; they import nothing else of the controller.
An error is a `KafkaError` kept as a value, since one request may succeed in part.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from odradek.base.errors import KafkaError
from odradek.base.principal import Principal
from odradek.config.alteration import Change
from odradek.core.metadata.image import (
    ClusterImage,
    ConfigResource,
    DelegationToken,
    PartitionImage,
    QuotaEntityKey,
)
from odradek.core.metadata.records import Endpoint, MetadataRecord, SupportedFeature
from odradek.core.quotas.mutations import NO_MUTATION_QUOTA, MutationQuota
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

RECORDS_MAX: Final = 10_000
"""Records of one atomic result."""


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T_co]):
    """The records that a command produces, and the response that is sent once they are committed."""

    records: tuple[MetadataRecord, ...]
    response: T_co
    is_atomic: bool = True
    """All records take effect together or not at all: they must fit one batch."""
    kraft_version: int | None = None
    """A new level of `kraft.version`, which the quorum leader writes as a control record."""

    def with_response(self, response: R) -> "ControllerResult[R]":
        return ControllerResult(self.records, response, self.is_atomic, self.kraft_version)


DEFAULT = -1
"""The number of partitions or replicas is the cluster's default."""


class NewTopic(NamedTuple):
    name: str
    partition_count: int
    replication_factor: int
    assignments: Sequence[tuple[int, tuple[int, ...]]]
    """Partition and its brokers, for a manual assignment."""
    configs: Sequence[tuple[str, str | None]]


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    read_only: bool
    source: int
    is_sensitive: bool


class TopicCreated(NamedTuple):
    topic_id: UUID
    partition_count: int
    replication_factor: int
    configs: Sequence[ConfigEntry]


class NewPartitions(NamedTuple):
    topic: str
    total: int
    """Includes the existing partitions."""
    assignments: Sequence[tuple[int, ...]] | None


class DeadProcess(NamedTuple):
    """Proof that the process of a registration has ended: see `core/liveness/takeover`."""

    broker_epoch: int
    probed_at: float


class Registration(NamedTuple):
    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None
    is_migrating_zk_broker: bool
    directories: tuple[UUID, ...]
    previous_broker_epoch: int
    """From the file that a clean shutdown writes, or -1."""
    detects_unclean_shutdown: bool
    """Whether the request's version has `previous_broker_epoch`."""
    dead_process: DeadProcess | None = None
    """The process that was registered before. None: it may be alive."""


class ControllerRegistration(NamedTuple):
    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]


class Heartbeat(NamedTuple):
    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool
    want_shutdown: bool
    offline_directories: tuple[UUID, ...]
    cordoned_directories: tuple[UUID, ...] | None


class BrokerHeartbeatReply(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ProducerIdBlock(NamedTuple):
    first: int
    length: int


class DirectoryAssignment(NamedTuple):
    topic_id: UUID
    partition: int
    directory: UUID


class ScramDeletion(NamedTuple):
    user: str
    mechanism: int
    """The code in the request, which may be unknown."""


class ScramUpsertion(NamedTuple):
    """A new SCRAM credential, or a new password of an existing one."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class NewToken(NamedTuple):
    """A delegation token that a client requests."""

    requester: Principal
    owner: Principal
    renewers: Sequence[Principal]
    max_lifetime_ms: int
    """0 or less: the configured maximum."""


class TokenCreated(NamedTuple):
    token_id: str
    token: DelegationToken
    hmac: bytes

    def __repr__(self) -> str:
        return "TokenCreated([hidden])"


NO_BROKER_EPOCH = -1
"""Unknown: old versions of the request have no broker epochs."""


class IsrChange(NamedTuple):
    """A new ISR, as the leader proposes it."""

    topic_id: UUID | None
    partition: int
    leader_epoch: int
    partition_epoch: int
    """The partition epoch on which the change is based."""
    isr: Sequence[tuple[int, int]]
    """Broker IDs and epochs."""
    leader_recovery_state: int


class ElectionKind(IntEnum):
    PREFERRED = 0
    """Elects the first replica if it is in sync."""
    UNCLEAN = 1
    """Elects any live replica, even if records are lost."""


class PartitionElection(NamedTuple):
    partition: int
    error: KafkaError | None


class TopicElections(NamedTuple):
    topic: str
    partitions: Sequence[PartitionElection]


class Reassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    """The target replicas. None: cancel the reassignment in progress."""


class QuotaAlteration(NamedTuple):
    entity: QuotaEntityKey
    changes: Sequence[tuple[str, float | None]]
    """Keys and their new limits. None: remove the limit."""


class TopicReassignments(NamedTuple):
    topic: str
    partitions: Sequence[tuple[int, PartitionImage]]
    """Partitions with a reassignment in progress, by index."""


class ControllerCommands(Protocol):
    """Every method may raise KafkaError, which fails the whole request."""

    @property
    def image(self) -> ClusterImage:
        """With the records of all commands so far, committed or not."""

    @property
    def allows_topic_deletion(self) -> bool: ...

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool, quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> ControllerResult[Mapping[str, TopicCreated | KafkaError]]: ...

    def find_topic_id(self, name: str) -> UUID | None: ...

    def find_topic_name(self, topic_id: UUID) -> str | None: ...

    def delete_topics(
        self, topic_ids: Collection[UUID], *, quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> ControllerResult[Mapping[UUID, KafkaError | None]]: ...

    def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool, quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> ControllerResult[Mapping[str, KafkaError | None]]: ...

    def replace_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]: ...

    def change_configs(
        self, changes: Mapping[ConfigResource, Sequence[Change]], *, validate_only: bool
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]: ...

    def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> ControllerResult[Mapping[QuotaEntityKey, KafkaError | None]]: ...

    def update_features(
        self, updates: Mapping[str, tuple[int, UpgradeType | None]], *, validate_only: bool
    ) -> ControllerResult[KafkaError | None]:
        """Level and type of each update. None: an unknown type."""

    def alter_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> ControllerResult[Mapping[str, KafkaError | None]]:
        """One result per user."""

    def create_delegation_token(self, token: NewToken, now_ms: int) -> ControllerResult[TokenCreated]: ...

    def renew_delegation_token(
        self, principal: Principal, hmac: bytes, period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        """The response is the new expiry."""

    def expire_delegation_token(
        self, principal: Principal, hmac: bytes, period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        """The response is the new expiry. A negative period removes the token."""

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ControllerResult[ProducerIdBlock]: ...

    def register_broker(self, registration: Registration, now: float) -> ControllerResult[int]:
        """The response is the broker's new epoch."""

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> ControllerResult[BrokerHeartbeatReply]: ...

    def unregister_broker(self, broker_id: int) -> ControllerResult[None]: ...

    def register_controller(self, registration: ControllerRegistration) -> ControllerResult[None]: ...

    def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> ControllerResult[Sequence[PartitionImage | KafkaError]]:
        """One result per change, in the same order: the partition after the change."""

    def elect_leaders(
        self, kind: ElectionKind, topics: Sequence[tuple[str, Sequence[int]]] | None
    ) -> ControllerResult[Sequence[TopicElections]]:
        """`topics` None: of all partitions that need it. Results are in the order of the request."""

    def alter_reassignments(
        self, reassignments: Sequence[Reassignment], *, allow_replication_factor_change: bool
    ) -> ControllerResult[Sequence[KafkaError | None]]:
        """One result per reassignment, in the same order."""

    def list_reassignments(self, topics: Sequence[tuple[str, Sequence[int]]] | None) -> Sequence[TopicReassignments]:
        """`topics` None: of all partitions."""

    def assign_directories(
        self, broker_id: int, broker_epoch: int, assignments: Sequence[DirectoryAssignment]
    ) -> ControllerResult[Sequence[KafkaError | None]]:
        """One result per assignment, in the same order."""

    def create_acls(self, entries: Sequence[AccessControlEntry]) -> ControllerResult[Sequence[KafkaError | None]]:
        """One result per entry, in the same order."""

    def delete_acls(
        self, filters: Sequence[AclFilter]
    ) -> ControllerResult[Sequence[Sequence[AccessControlEntry] | KafkaError]]:
        """The deleted entries of each filter, in the same order."""
