"""The records that build an image from an empty one, for a snapshot."""

from collections.abc import Iterator
from uuid import UUID

from odradek.core.metadata import records as log
from odradek.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from odradek.core.metadata.image import BrokerImage, ClusterImage, PartitionImage


def records_of(image: ClusterImage) -> Iterator[log.MetadataRecord]:
    """`metadata.version` comes first, since it determines the versions of the other records."""
    yield from _features(image)
    for broker in image.brokers.values():
        yield broker_record(broker)
    for controller in image.controllers.values():
        yield log.RegisterControllerRecord(
            controller_id=controller.id,
            incarnation_id=controller.incarnation_id,
            zk_migration_ready=controller.zk_migration_ready,
            end_points=controller.endpoints,
            features=controller.features,
        )
    has_elr = image.features.level(ELIGIBLE_LEADER_REPLICAS) >= 1
    for topic in image.topics_by_id.values():
        yield log.TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in sorted(topic.partitions.items()):
            yield partition_record(topic.id, index, partition, has_elr=has_elr)
    for (resource_type, resource_name), settings in image.configs.items():
        for name, value in settings.items():
            yield log.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    yield from _quotas(image)
    if image.next_producer_id > 0:
        yield log.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security(image)


def partition_record(topic_id: UUID, index: int, partition: PartitionImage, *, has_elr: bool) -> log.PartitionRecord:
    return log.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr if has_elr and partition.elr else None,
        last_known_elr=partition.last_known_elr if has_elr and partition.last_known_elr else None,
    )


def broker_record(broker: BrokerImage) -> log.RegisterBrokerRecord:
    return log.RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned_directories or None,
    )


def _features(image: ClusterImage) -> Iterator[log.MetadataRecord]:
    yield log.FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features.metadata_version)
    for name, level in image.features.levels.items():
        if name != METADATA_VERSION:
            yield log.FeatureLevelRecord(name=name, feature_level=level)


def _quotas(image: ClusterImage) -> Iterator[log.MetadataRecord]:
    for entity, limits in image.client_quotas.items():
        parts = tuple(log.QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, value in limits.items():
            yield log.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _security(image: ClusterImage) -> Iterator[log.MetadataRecord]:
    for entry_id, entry in image.access_control_entries.items():
        yield log.AccessControlEntryRecord(
            id=entry_id,
            resource_type=entry.resource_type,
            resource_name=entry.resource_name,
            pattern_type=entry.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
    for (user, mechanism), credential in image.scram_credentials.items():
        yield log.UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for token_id, token in image.delegation_tokens.items():
        yield log.DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp_ms,
            max_timestamp=token.max_timestamp_ms,
            expiration_timestamp=token.expiration_timestamp_ms,
            token_id=token_id,
        )
