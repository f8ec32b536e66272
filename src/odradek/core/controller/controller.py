"""The active controller: one object that executes every command on its image.

A command changes nothing by itself. `quorum/active_controller` appends the records of its result and passes them to
`replay` before the next command; it returns the response once the records are committed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Random
from odradek.base.principal import Principal
from odradek.config.alteration import Change
from odradek.config.node_config import NodeConfig
from odradek.core.controller.acls import Acls
from odradek.core.controller.brokers import Brokers
from odradek.core.controller.client_quotas import ClientQuotas
from odradek.core.controller.commands import (
    BrokerHeartbeatReply,
    ControllerRegistration,
    ControllerResult,
    DirectoryAssignment,
    ElectionKind,
    Heartbeat,
    IsrChange,
    NewPartitions,
    NewToken,
    NewTopic,
    ProducerIdBlock,
    QuotaAlteration,
    Reassignment,
    Registration,
    ScramDeletion,
    ScramUpsertion,
    TokenCreated,
    TopicCreated,
    TopicElections,
    TopicReassignments,
    UpgradeType,
)
from odradek.core.controller.configs import Configs
from odradek.core.controller.delegation_tokens import DelegationTokens
from odradek.core.controller.directories import Directories
from odradek.core.controller.elections import Elections
from odradek.core.controller.features import Features
from odradek.core.controller.isr_changes import IsrChanges
from odradek.core.controller.leaders import Leaders
from odradek.core.controller.producer_ids import ProducerIds
from odradek.core.controller.reassignments import Reassignments
from odradek.core.controller.scram_users import ScramUsers
from odradek.core.controller.sessions import BrokerSessions
from odradek.core.controller.state import ControllerState
from odradek.core.controller.topics import Topics
from odradek.core.metadata.apply import ImageDelta, apply
from odradek.core.metadata.features import IV_3_7_CONTROLLER_REGISTRATION
from odradek.core.metadata.image import (
    EMPTY_IMAGE,
    ClusterImage,
    ConfigResource,
    PartitionImage,
    QuotaEntityKey,
)
from odradek.core.metadata.records import MetadataRecord, NoOpRecord, RegisterControllerRecord
from odradek.core.quotas.mutations import NO_MUTATION_QUOTA, MutationQuota
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter


class Controller:
    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        random: Random,
        image: ClusterImage = EMPTY_IMAGE,
    ) -> None:
        self._state = ControllerState(config, cluster_id, random, image)
        self._sessions = BrokerSessions(config.broker_session_timeout_ms / 1000)
        elections = Elections(self._state)
        self._configs = Configs(self._state)
        self._topics = Topics(self._state, self._configs)
        self._brokers = Brokers(self._state, elections, self._sessions)
        self._features = Features(self._state, self._configs)
        self._client_quotas = ClientQuotas(self._state)
        self._producer_ids = ProducerIds(self._state)
        self._scram_users = ScramUsers(self._state)
        self._delegation_tokens = DelegationTokens(self._state)
        self._directories = Directories(self._state, elections)
        self._isr_changes = IsrChanges(self._state, elections)
        self._leaders = Leaders(self._state, elections)
        self._reassignments = Reassignments(self._state, elections)
        self._acls = Acls(self._state)

    @property
    def image(self) -> ClusterImage:
        """With the records of all commands so far, committed or not."""
        return self._state.image

    def replay(
        self, records: Iterable[MetadataRecord], *, offset: int, epoch: int, timestamp_ms: int
    ) -> tuple[ClusterImage, ImageDelta]:
        state = self._state
        state.image, delta = apply(state.image, records, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
        state.index.update(state.image, delta)
        return state.image, delta

    def note_log_end(self, end_offset: int) -> None:
        """To be called before a command: the quorum may have appended control records."""
        image = self._state.image
        assert end_offset > image.offset, f"the log ends at {end_offset}, before the controller's offset {image.offset}"
        if image.offset != end_offset - 1:
            self._state.image = image.at_offset(
                offset=end_offset - 1, epoch=image.epoch, timestamp_ms=image.timestamp_ms
            )

    def note_kraft_version(self, level: int) -> None:
        self._state.image = self._state.image.with_kraft_version(level)

    def start_sessions(self, now: float) -> None:
        """After the activation, every unfenced broker has a whole session timeout for its first heartbeat."""
        for broker in self._state.image.brokers.values():
            if not broker.fenced:
                self._sessions.touch(broker.id, broker.epoch, now)

    def register_controller(self, registration: ControllerRegistration) -> ControllerResult[None]:
        if self._state.metadata_version < IV_3_7_CONTROLLER_REGISTRATION:
            raise KafkaError(
                ErrorCode.unsupported_version,
                "The current MetadataVersion is too old to support controller registrations.",
            )
        record = RegisterControllerRecord(
            controller_id=registration.controller_id,
            incarnation_id=registration.incarnation_id,
            zk_migration_ready=False,
            end_points=registration.endpoints,
            features=registration.features,
        )
        return ControllerResult((record,), None)

    def write_no_op(self) -> ControllerResult[None]:
        """Writes an empty record, which shows that the log still grows while nothing else happens."""
        return ControllerResult((NoOpRecord(),), None)

    # Topics

    @property
    def allows_topic_deletion(self) -> bool:
        return self._state.config.delete_topic_enable

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool, quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> ControllerResult[Mapping[str, TopicCreated | KafkaError]]:
        return self._topics.create(topics, validate_only=validate_only, quota=quota)

    def find_topic_id(self, name: str) -> UUID | None:
        topic = self._state.image.topics_by_name.get(name)
        return None if topic is None else topic.id

    def find_topic_name(self, topic_id: UUID) -> str | None:
        topic = self._state.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def delete_topics(
        self, topic_ids: Collection[UUID], *, quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> ControllerResult[Mapping[UUID, KafkaError | None]]:
        return self._topics.delete(topic_ids, quota)

    def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool, quota: MutationQuota = NO_MUTATION_QUOTA
    ) -> ControllerResult[Mapping[str, KafkaError | None]]:
        return self._topics.create_partitions(topics, validate_only=validate_only, quota=quota)

    # Configs and features

    def replace_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]:
        return self._configs.replace(configs, validate_only=validate_only)

    def change_configs(
        self, changes: Mapping[ConfigResource, Sequence[Change]], *, validate_only: bool
    ) -> ControllerResult[Mapping[ConfigResource, KafkaError | None]]:
        return self._configs.change(changes, validate_only=validate_only)

    def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> ControllerResult[Mapping[QuotaEntityKey, KafkaError | None]]:
        return self._client_quotas.alter(alterations, validate_only=validate_only)

    def update_features(
        self, updates: Mapping[str, tuple[int, UpgradeType | None]], *, validate_only: bool
    ) -> ControllerResult[KafkaError | None]:
        return self._features.update(updates, validate_only=validate_only)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ControllerResult[ProducerIdBlock]:
        return self._producer_ids.allocate(broker_id, broker_epoch)

    # Credentials

    def alter_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> ControllerResult[Mapping[str, KafkaError | None]]:
        return self._scram_users.alter(deletions, upsertions)

    def create_delegation_token(self, token: NewToken, now_ms: int) -> ControllerResult[TokenCreated]:
        return self._delegation_tokens.create(token, now_ms)

    def renew_delegation_token(
        self, principal: Principal, hmac: bytes, period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        return self._delegation_tokens.renew(principal, hmac, period_ms, now_ms)

    def expire_delegation_token(
        self, principal: Principal, hmac: bytes, period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        return self._delegation_tokens.expire(principal, hmac, period_ms, now_ms)

    def sweep_delegation_tokens(self, now_ms: int) -> ControllerResult[bool]:
        """Removes some expired tokens. True: there may be more."""
        return self._delegation_tokens.sweep(now_ms)

    # Brokers

    def register_broker(self, registration: Registration, now: float) -> ControllerResult[int]:
        return self._brokers.register(registration, now, self._state.image.offset + 1)

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> ControllerResult[BrokerHeartbeatReply]:
        return self._brokers.heartbeat(heartbeat, now)

    def unregister_broker(self, broker_id: int) -> ControllerResult[None]:
        return self._brokers.unregister(broker_id)

    def has_session(self, broker_id: int, now: float) -> bool:
        return self._brokers.has_session(broker_id, now)

    def next_session_expiry(self) -> float | None:
        return self._brokers.next_expiry()

    def expire_sessions(self, now: float) -> ControllerResult[int | None]:
        """Fences one broker whose session has expired, and returns its id. None: there is none."""
        return self._brokers.expire_one(now)

    def fence_unresponsive_broker(
        self, broker_id: int, broker_epoch: int, unresponsive_since: float
    ) -> ControllerResult[bool]:
        return self._brokers.fence_unresponsive(broker_id, broker_epoch, unresponsive_since)

    def assign_directories(
        self, broker_id: int, broker_epoch: int, assignments: Sequence[DirectoryAssignment]
    ) -> ControllerResult[Sequence[KafkaError | None]]:
        return self._directories.assign(broker_id, broker_epoch, assignments)

    # Leaders, ISR and reassignments

    def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> ControllerResult[Sequence[PartitionImage | KafkaError]]:
        return self._isr_changes.alter(broker_id, broker_epoch, changes)

    def elect_leaders(
        self, kind: ElectionKind, topics: Sequence[tuple[str, Sequence[int]]] | None
    ) -> ControllerResult[Sequence[TopicElections]]:
        return self._leaders.elect(kind, topics)

    def balance_leaders(self) -> ControllerResult[bool]:
        """Returns leadership of some partitions to their preferred leaders. True: there may be more."""
        return self._leaders.balance()

    def elect_unclean_leaders(self) -> ControllerResult[bool]:
        """Elects leaders uncleanly for some offline partitions whose topics allow it. True: there may be more."""
        return self._leaders.elect_unclean()

    def alter_reassignments(
        self, reassignments: Sequence[Reassignment], *, allow_replication_factor_change: bool
    ) -> ControllerResult[Sequence[KafkaError | None]]:
        return self._reassignments.alter(reassignments, allow_replication_factor_change=allow_replication_factor_change)

    def list_reassignments(self, topics: Sequence[tuple[str, Sequence[int]]] | None) -> Sequence[TopicReassignments]:
        return self._reassignments.list_ongoing(topics)

    # Security

    def create_acls(self, entries: Sequence[AccessControlEntry]) -> ControllerResult[Sequence[KafkaError | None]]:
        return self._acls.create(entries)

    def delete_acls(
        self, filters: Sequence[AclFilter]
    ) -> ControllerResult[Sequence[Sequence[AccessControlEntry] | KafkaError]]:
        return self._acls.delete(filters)
