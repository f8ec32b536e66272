"""The state of the cluster at one offset of the metadata log: immutable, and replaced as a whole.

Values only: `apply.py` creates new images from records. Slots, tuples and shared parts keep a million partitions small.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from odradek.base.ids import NO_LEADER
from odradek.base.values import value
from odradek.core.metadata.features import METADATA_VERSION
from odradek.core.metadata.persistent_map import PersistentMap
from odradek.core.metadata.records import Endpoint, SupportedFeature
from odradek.core.security.acl_entry import AccessControlEntry

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected uncleanly and has not reported the end of its recovery."""

RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4
RESOURCE_CLIENT_METRICS: Final = 16
RESOURCE_GROUP: Final = 32

ConfigResource: TypeAlias = tuple[int, str]
"""Type and name. The broker resource with an empty name has the configs of all brokers."""


@value
class PartitionImage:
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    directories: tuple[UUID | None, ...]
    """In the order of `replicas`."""
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: not in the ISR, but known to have all committed records."""
    last_known_elr: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.adding or self.removing)

    def directory_of(self, broker_id: int) -> UUID | None:
        """Raises ValueError if the broker has no replica."""
        return self.directories[self.replicas.index(broker_id)]


@value
class TopicImage:
    name: str
    id: UUID
    partitions: Mapping[int, PartitionImage]


@value
class BrokerImage:
    id: int
    epoch: int
    """The offset of the registration in the metadata log: it grows with each incarnation."""
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[UUID, ...]
    cordoned_directories: tuple[UUID, ...] = ()
    """Directories that take no new replicas."""
    is_migrating_zk_broker: bool = False

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)

    def inter_broker_endpoint(self, listener_name: str) -> Endpoint | None:
        return find_inter_broker_endpoint(self.endpoints, listener_name)

    def host(self, listener_name: str) -> str:
        """The computer that this broker runs on: brokers with the same advertised host name share it.

        A broker whose inter-broker endpoint is unknown counts as a host of its own.
        """
        endpoint = self.inter_broker_endpoint(listener_name)
        return f"broker {self.id}" if endpoint is None else endpoint.host.lower()


def find_inter_broker_endpoint(endpoints: tuple[Endpoint, ...], listener_name: str) -> Endpoint | None:
    """None: unknown. A controller may not have the listener's name; a broker with one endpoint needs no name."""
    named = next((endpoint for endpoint in endpoints if endpoint.name == listener_name), None)
    return endpoints[0] if named is None and len(endpoints) == 1 else named


@value
class ControllerImage:
    id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    zk_migration_ready: bool = False


@value
class FeaturesImage:
    levels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The finalized level of each feature, without those at level 0. `metadata.version` is one of them."""
    kraft_version: int = 0
    """Finalized by a control record of the quorum, not by a metadata record."""

    def level(self, name: str) -> int:
        return self.levels.get(name, 0)

    @property
    def metadata_version(self) -> int:
        return self.level(METADATA_VERSION)


@value
class ScramCredential:
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"


@value
class DelegationToken:
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int


QuotaEntityKey: TypeAlias = tuple[tuple[str, str | None], ...]
"""Sorted pairs of type ("user", "client-id", "ip") and name, None for the type's default."""


@value
class ClusterImage:
    offset: int = -1
    """Of the last record that is in the image."""
    epoch: int = -1
    """The leader epoch of that record's batch."""
    timestamp_ms: int = -1
    """The append time of that record's batch."""
    topics_by_name: PersistentMap[str, TopicImage] = field(default_factory=PersistentMap)
    topics_by_id: PersistentMap[UUID, TopicImage] = field(default_factory=PersistentMap)
    brokers: Mapping[int, BrokerImage] = field(default_factory=lambda: MappingProxyType({}))
    controllers: Mapping[int, ControllerImage] = field(default_factory=lambda: MappingProxyType({}))
    configs: PersistentMap[ConfigResource, Mapping[str, str]] = field(default_factory=PersistentMap)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    next_producer_id: int = 0
    client_quotas: PersistentMap[QuotaEntityKey, Mapping[str, float]] = field(default_factory=PersistentMap)
    scram_credentials: PersistentMap[tuple[str, int], ScramCredential] = field(default_factory=PersistentMap)
    """By user and mechanism (1: SCRAM-SHA-256, 2: SCRAM-SHA-512)."""
    delegation_tokens: PersistentMap[str, DelegationToken] = field(default_factory=PersistentMap)
    access_control_entries: PersistentMap[UUID, AccessControlEntry] = field(default_factory=PersistentMap)

    def at_offset(self, *, offset: int, epoch: int, timestamp_ms: int) -> "ClusterImage":
        """The same cluster at another offset."""
        return replace(self, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)

    def with_kraft_version(self, level: int) -> "ClusterImage":
        assert level >= self.features.kraft_version, f"kraft.version {self.features.kraft_version} became {level}"
        return replace(self, features=replace(self.features, kraft_version=level))

    def topic_config(self, topic_name: str) -> Mapping[str, str]:
        return self.configs.get((RESOURCE_TOPIC, topic_name), NO_CONFIG)

    def broker_config(self, broker_id: int) -> Mapping[str, str]:
        """The configs of this broker, without those of all brokers."""
        return self.configs.get((RESOURCE_BROKER, str(broker_id)), NO_CONFIG)

    def default_broker_config(self) -> Mapping[str, str]:
        return self.configs.get((RESOURCE_BROKER, ""), NO_CONFIG)


NO_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})
EMPTY_IMAGE: Final = ClusterImage()
