"""Applies records to an image: returns a new image and its delta, in time proportional to the change.

It does not validate: the controller has decided the records. A record that cannot be applied means that the log is
incomplete (`UnappliableRecord`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from odradek.core.metadata import records as log
from odradek.core.metadata.directories import MIGRATING
from odradek.core.metadata.features import METADATA_VERSION
from odradek.core.metadata.image import (
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    ControllerImage,
    DelegationToken,
    PartitionImage,
    ScramCredential,
    TopicImage,
)
from odradek.core.metadata.keyed_changes import KeyedChanges
from odradek.core.security.acl_entry import AccessControlEntry


class UnappliableRecord(ValueError):
    """A record refers to something that no earlier record has created."""


@dataclass(frozen=True, slots=True)
class ImageDelta:
    """The difference to `previous`. What one call of `apply` both creates and deletes is not in it."""

    previous: ClusterImage
    topics_created: tuple[TopicImage, ...] = ()
    topics_changed: tuple[TopicImage, ...] = ()
    """Existing topics with new or changed partitions."""
    topics_deleted: tuple[TopicImage, ...] = ()
    """As before the deletion."""
    partitions_changed: Mapping[UUID, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """New and changed partitions of the created and changed topics."""
    configs_changed: tuple[ConfigResource, ...] = ()
    brokers_changed: tuple[int, ...] = ()
    """Registered, changed or unregistered."""
    controllers_changed: tuple[int, ...] = ()
    features_changed: tuple[str, ...] = ()
    client_quotas_changed: bool = False
    credentials_changed: bool = False
    """SCRAM credentials or delegation tokens."""
    access_control_changed: tuple[UUID, ...] = ()
    """IDs of created and deleted ACLs."""


def apply(
    image: ClusterImage, records: Iterable[log.MetadataRecord], *, offset: int, epoch: int, timestamp_ms: int = -1
) -> tuple[ClusterImage, ImageDelta]:
    """`offset` and `epoch` are those of the last record and of the returned image."""
    changes = _Changes(image)
    for record in records:
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(changes, record)
    return changes.finish(offset, epoch, timestamp_ms)


def _partition_image(record: log.PartitionRecord, directories: tuple[UUID | None, ...]) -> PartitionImage:
    return PartitionImage(
        replicas=record.replicas,
        directories=directories,
        # Usually all replicas are in sync: then one tuple serves both.
        isr=record.replicas if record.isr == record.replicas else record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        elr=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        removing=record.removing_replicas,
        adding=record.adding_replicas,
        leader_recovery_state=record.leader_recovery_state,
    )


def merge(partition: PartitionImage, change: log.PartitionChangeRecord) -> PartitionImage:
    """The partition after `change`: a given leader, even the same one, starts a new leader epoch."""
    assert change.leader < 0 or change.leader in (change.replicas or partition.replicas), (
        f"leader {change.leader} is not among the replicas {change.replicas or partition.replicas}"
    )
    replicas = partition.replicas if change.replicas is None else change.replicas
    directories = partition.directories if change.directories is None else change.directories
    isr = partition.isr if change.isr is None else change.isr
    same_leader = change.leader == log.NO_LEADER_CHANGE
    same_recovery = change.leader_recovery_state == log.NO_RECOVERY_STATE_CHANGE
    elr = change.eligible_leader_replicas
    last_known_elr = change.last_known_elr
    return PartitionImage(
        replicas=replicas,
        directories=_known_directories(directories, len(replicas)),
        isr=replicas if isr == replicas else isr,
        leader=partition.leader if same_leader else change.leader,
        leader_epoch=partition.leader_epoch if same_leader else partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        elr=partition.elr if elr is None else elr,
        last_known_elr=partition.last_known_elr if last_known_elr is None else last_known_elr,
        removing=partition.removing if change.removing_replicas is None else change.removing_replicas,
        adding=partition.adding if change.adding_replicas is None else change.adding_replicas,
        leader_recovery_state=partition.leader_recovery_state if same_recovery else change.leader_recovery_state,
    )


def _broker_image(record: log.RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=record.end_points,
        features=record.features,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=record.log_dirs,
        cordoned_directories=record.cordoned_log_dirs or (),
        is_migrating_zk_broker=record.is_migrating_zk_broker,
    )


def _known_directories(directories: tuple[UUID | None, ...], replica_count: int) -> tuple[UUID | None, ...]:
    # Usually the first one decides.
    if directories and (directories[0] != MIGRATING or any(directory != MIGRATING for directory in directories)):
        return directories
    return (MIGRATING,) * replica_count


def _has_elr(partition: PartitionImage) -> bool:
    return bool(partition.elr or partition.last_known_elr)


class _Changes:
    """The changes of one call of `apply`."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: dict[UUID, tuple[str, dict[int, PartitionImage]] | None] = {}
        """Changed topics with a partition dict of their own; None: removed."""
        self._latest: tuple[UUID | None, dict[int, PartitionImage]] = (None, {})
        """A cache for the topic of the previous record, since a topic may have thousands of partition records."""
        self._brokers = KeyedChanges(image.brokers)
        self._controllers = KeyedChanges(image.controllers)
        self._features = KeyedChanges(image.features.levels)
        self._configs = KeyedChanges(image.configs)
        self._quotas = KeyedChanges(image.client_quotas)
        self._scram = KeyedChanges(image.scram_credentials)
        self._tokens = KeyedChanges(image.delegation_tokens)
        self._access = KeyedChanges(image.access_control_entries)
        self._next_producer_id = image.next_producer_id

    # Topics

    def topic(self, record: log.TopicRecord) -> None:
        self._topics[record.topic_id] = (record.name, {})
        self._latest = (None, {})

    def partition(self, record: log.PartitionRecord) -> None:
        directories = _known_directories(record.directories, len(record.replicas))
        self._partitions_of(record.topic_id)[record.partition_id] = _partition_image(record, directories)

    def partition_change(self, record: log.PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        partition = partitions.get(record.partition_id)
        if partition is None:
            raise UnappliableRecord(
                f"change of partition {record.partition_id} of {record.topic_id}: no such partition"
            )
        partitions[record.partition_id] = merge(partition, record)

    def remove_topic(self, record: log.RemoveTopicRecord) -> None:
        name = self._named_partitions(record.topic_id)[0]
        self._topics[record.topic_id] = None
        self._latest = (None, {})
        self._configs.remove((RESOURCE_TOPIC, name))

    def clear_elr(self, record: log.ClearElrRecord) -> None:
        if record.topic_name:
            topic = self._image.topics_by_name.get(record.topic_name)
            topics = [] if topic is None else [topic]
        else:
            topics = list(self._image.topics_by_id.values())
        # A topic that this call creates has no ELR yet.
        for topic in topics:
            if self._topics.get(topic.id, ()) is None or not any(map(_has_elr, topic.partitions.values())):
                continue
            partitions = self._partitions_of(topic.id)
            for index, partition in partitions.items():
                if _has_elr(partition):
                    forget = log.PartitionChangeRecord(
                        partition_id=index, topic_id=topic.id, eligible_leader_replicas=(), last_known_elr=()
                    )
                    partitions[index] = merge(partition, forget)

    def _partitions_of(self, topic_id: UUID) -> dict[int, PartitionImage]:
        if self._latest[0] is not topic_id:
            self._latest = (topic_id, self._named_partitions(topic_id)[1])
        return self._latest[1]

    def _named_partitions(self, topic_id: UUID) -> tuple[str, dict[int, PartitionImage]]:
        changed = self._topics.get(topic_id)
        if changed is None:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None or topic_id in self._topics:
                raise UnappliableRecord(f"record about topic {topic_id}, which does not exist")
            changed = self._topics[topic_id] = (topic.name, dict(topic.partitions))
        return changed

    # Nodes

    def register_broker(self, record: log.RegisterBrokerRecord) -> None:
        former = self._brokers.get(record.broker_id)
        assert former is None or record.broker_epoch >= former.epoch, (
            f"broker {record.broker_id} registers with epoch {record.broker_epoch} after {former}"
        )
        self._brokers.put(record.broker_id, _broker_image(record))

    def unregister_broker(self, record: log.UnregisterBrokerRecord) -> None:
        self._brokers.remove(record.broker_id)

    def fence_broker(self, record: log.FenceBrokerRecord) -> None:
        self._brokers.put(record.id, replace(self._broker(record.id, record.epoch), fenced=True))

    def unfence_broker(self, record: log.UnfenceBrokerRecord) -> None:
        self._brokers.put(record.id, replace(self._broker(record.id, record.epoch), fenced=False))

    def broker_change(self, record: log.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self._brokers.put(
            broker.id,
            replace(
                broker,
                fenced=broker.fenced if record.fenced == 0 else record.fenced > 0,
                in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
                directories=record.log_dirs or broker.directories,
                cordoned_directories=broker.cordoned_directories if cordoned is None else cordoned,
            ),
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise UnappliableRecord(f"change of broker {broker_id} with epoch {epoch}: registered is {broker}")
        return broker

    def register_controller(self, record: log.RegisterControllerRecord) -> None:
        self._controllers.put(
            record.controller_id,
            ControllerImage(
                id=record.controller_id,
                incarnation_id=record.incarnation_id,
                endpoints=record.end_points,
                features=record.features,
                zk_migration_ready=record.zk_migration_ready,
            ),
        )

    # Configs, features, quotas

    def config(self, record: log.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = dict(self._configs.get(resource) or {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        self._configs.put_or_remove(resource, values)

    def feature_level(self, record: log.FeatureLevelRecord) -> None:
        if record.feature_level == 0 and record.name != METADATA_VERSION:
            self._features.remove(record.name)
        else:
            self._features.put(record.name, record.feature_level)

    def producer_ids(self, record: log.ProducerIdsRecord) -> None:
        assert record.next_producer_id >= self._next_producer_id, "a producer ID must not be allocated twice"
        self._next_producer_id = record.next_producer_id

    def client_quota(self, record: log.ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        limits = dict(self._quotas.get(entity) or {})
        if record.remove:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        self._quotas.put_or_remove(entity, limits)

    # Security

    def scram_credential(self, record: log.UserScramCredentialRecord) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        self._scram.put((record.name, record.mechanism), credential)

    def remove_scram_credential(self, record: log.RemoveUserScramCredentialRecord) -> None:
        self._scram.remove((record.name, record.mechanism))

    def delegation_token(self, record: log.DelegationTokenRecord) -> None:
        token = DelegationToken(
            record.owner,
            record.requester,
            record.renewers,
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )
        self._tokens.put(record.token_id, token)

    def remove_delegation_token(self, record: log.RemoveDelegationTokenRecord) -> None:
        self._tokens.remove(record.token_id)

    def access_control_entry(self, record: log.AccessControlEntryRecord) -> None:
        entry = AccessControlEntry(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self._access.put(record.id, entry)

    def remove_access_control_entry(self, record: log.RemoveAccessControlEntryRecord) -> None:
        self._access.remove(record.id)

    # Result

    def finish(self, offset: int, epoch: int, timestamp_ms: int) -> tuple[ClusterImage, ImageDelta]:
        before = self._image
        assert offset >= before.offset, f"records at offset {offset} were applied to an image at {before.offset}"
        assert epoch >= before.epoch, f"records of epoch {epoch} were applied to an image of epoch {before.epoch}"
        created: list[TopicImage] = []
        changed: list[TopicImage] = []
        deleted: list[TopicImage] = []
        partitions_changed: dict[UUID, tuple[int, ...]] = {}
        for topic_id, named_partitions in self._topics.items():
            old = before.topics_by_id.get(topic_id)
            if named_partitions is None:
                if old is not None:
                    deleted.append(old)
                continue
            topic = TopicImage(named_partitions[0], topic_id, named_partitions[1])
            (created if old is None else changed).append(topic)
            partitions_changed[topic_id] = tuple(
                index
                for index, partition in topic.partitions.items()
                if old is None or old.partitions.get(index) is not partition
            )
        by_id, by_name = before.topics_by_id, before.topics_by_name
        if self._topics:
            present = [*created, *changed]
            by_id = by_id.with_changes({topic.id: topic for topic in present}, [topic.id for topic in deleted])
            by_name = by_name.with_changes({topic.name: topic for topic in present}, [topic.name for topic in deleted])
        image = ClusterImage(
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            topics_by_name=by_name,
            topics_by_id=by_id,
            brokers=self._brokers.result(),
            controllers=self._controllers.result(),
            configs=self._configs.persistent_result(before.configs),
            features=replace(before.features, levels=self._features.result()),
            next_producer_id=self._next_producer_id,
            client_quotas=self._quotas.persistent_result(before.client_quotas),
            scram_credentials=self._scram.persistent_result(before.scram_credentials),
            delegation_tokens=self._tokens.persistent_result(before.delegation_tokens),
            access_control_entries=self._access.persistent_result(before.access_control_entries),
        )
        delta = ImageDelta(
            previous=before,
            topics_created=tuple(created),
            topics_changed=tuple(changed),
            topics_deleted=tuple(deleted),
            partitions_changed=partitions_changed,
            configs_changed=self._configs.keys,
            brokers_changed=self._brokers.keys,
            controllers_changed=self._controllers.keys,
            features_changed=self._features.keys,
            client_quotas_changed=bool(self._quotas.keys),
            credentials_changed=bool(self._scram.keys or self._tokens.keys),
            access_control_changed=self._access.keys,
        )
        return image, delta


_HANDLERS: dict[type[log.MetadataRecord], Callable[[_Changes, Any], None]] = {
    log.TopicRecord: _Changes.topic,
    log.PartitionRecord: _Changes.partition,
    log.PartitionChangeRecord: _Changes.partition_change,
    log.RemoveTopicRecord: _Changes.remove_topic,
    log.ClearElrRecord: _Changes.clear_elr,
    log.RegisterBrokerRecord: _Changes.register_broker,
    log.UnregisterBrokerRecord: _Changes.unregister_broker,
    log.FenceBrokerRecord: _Changes.fence_broker,
    log.UnfenceBrokerRecord: _Changes.unfence_broker,
    log.BrokerRegistrationChangeRecord: _Changes.broker_change,
    log.RegisterControllerRecord: _Changes.register_controller,
    log.ConfigRecord: _Changes.config,
    log.FeatureLevelRecord: _Changes.feature_level,
    log.ProducerIdsRecord: _Changes.producer_ids,
    log.ClientQuotaRecord: _Changes.client_quota,
    log.UserScramCredentialRecord: _Changes.scram_credential,
    log.RemoveUserScramCredentialRecord: _Changes.remove_scram_credential,
    log.DelegationTokenRecord: _Changes.delegation_token,
    log.RemoveDelegationTokenRecord: _Changes.remove_delegation_token,
    log.AccessControlEntryRecord: _Changes.access_control_entry,
    log.RemoveAccessControlEntryRecord: _Changes.remove_access_control_entry,
}
"""Without the records that do not change the image: transactions, no-op, ZooKeeper migration."""
