"""What a command of the active controller changes, from the image before it and the records that it writes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from odradek.base.ids import uuid_to_text
from odradek.core.audit.redaction import shown_value, shown_values
from odradek.core.metadata import records as log
from odradek.core.metadata.image import (
    NO_CONFIG,
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ClusterImage,
    ConfigResource,
    DelegationToken,
    PartitionImage,
    QuotaEntityKey,
    TopicImage,
)
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType, name_of
from odradek.core.security.scram_credentials import find_mechanism

KRAFT_VERSION: Final = "kraft.version"
_RESOURCE_TYPES: Final = {
    RESOURCE_TOPIC: "TOPIC",
    RESOURCE_BROKER: "BROKER",
    RESOURCE_CLIENT_METRICS: "CLIENT_METRICS",
    RESOURCE_GROUP: "GROUP",
}
_Values = dict[str, Any]


class Change(NamedTuple):
    event: str
    resource_type: str
    resource_name: str
    before: Mapping[str, Any] | None
    """None: it did not exist."""
    after: Mapping[str, Any] | None
    """None: it does not exist any more."""


def describe_changes(
    before: ClusterImage, records: Iterable[log.MetadataRecord], kraft_version: int | None = None
) -> list[Change]:
    """One change per kind of change and resource, in the order of the records."""
    found = _Found(before)
    for record in records:
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(found, record)
    if kraft_version is not None:
        found.feature_level(KRAFT_VERSION, before.features.kraft_version, kraft_version)
    return found.changes()


class _Key(NamedTuple):
    event: str
    resource_type: str
    resource_name: str
    part: UUID | None = None
    """Of an ACL: a request may change several ACLs about one resource."""


class _Found:
    def __init__(self, image: ClusterImage) -> None:
        self._image: Final = image
        self._changes: Final[dict[_Key, tuple[_Values | None, _Values | None]]] = {}
        self._new_topics: Final[dict[UUID, str]] = {}

    def changes(self) -> list[Change]:
        return [
            Change(key.event, key.resource_type, key.resource_name, before, after)
            for key, (before, after) in self._changes.items()
        ]

    def _add(
        self,
        event: str,
        kind: str,
        name: str,
        before: _Values | None,
        after: _Values | None,
        *,
        part: UUID | None = None,
    ) -> None:
        self._changes[_Key(event, kind, name, part)] = (before, after)

    def _merge(self, event: str, kind: str, name: str, before: _Values, after: _Values) -> None:
        """Adds to the change of the same resource by earlier records."""
        known = self._changes.setdefault(_Key(event, kind, name), ({}, {}))
        for values, more in zip(known, (before, after), strict=True):
            assert values is not None
            values.update(more)

    # Topics

    def topic(self, record: log.TopicRecord) -> None:
        self._new_topics[record.topic_id] = record.name
        after = {"id": uuid_to_text(record.topic_id), "partitions": 0, "replication_factor": 0, "configs": {}}
        self._add("topic.create", "TOPIC", record.name, None, after)

    def partition(self, record: log.PartitionRecord) -> None:
        name = self._new_topics.get(record.topic_id)
        if name is not None:
            _, after = self._changes[_Key("topic.create", "TOPIC", name)]
            assert after is not None
            after["partitions"] += 1
            after["replication_factor"] = len(record.replicas)
        elif (topic := self._image.topics_by_id.get(record.topic_id)) is not None:
            key = _Key("partitions.create", "TOPIC", topic.name)
            if key not in self._changes:
                self._changes[key] = ({"partitions": len(topic.partitions)}, {"partitions": len(topic.partitions)})
            _, after = self._changes[key]
            assert after is not None
            after["partitions"] += 1

    def remove_topic(self, record: log.RemoveTopicRecord) -> None:
        topic = self._image.topics_by_id.get(record.topic_id)
        if topic is not None:
            configs = shown_values(RESOURCE_TOPIC, self._image.topic_config(topic.name))
            self._add("topic.delete", "TOPIC", topic.name, {**_describe_topic(topic), "configs": configs}, None)

    def partition_change(self, record: log.PartitionChangeRecord) -> None:
        topic = self._image.topics_by_id.get(record.topic_id)
        partition = None if topic is None else topic.partitions.get(record.partition_id)
        if topic is None or partition is None:
            return
        index = str(record.partition_id)
        if (record.replicas, record.adding_replicas, record.removing_replicas) != (None, None, None):
            before = _describe_assignment(partition)
            after = dict(before)
            for field, value in (
                ("replicas", record.replicas),
                ("adding", record.adding_replicas),
                ("removing", record.removing_replicas),
            ):
                if value is not None:
                    after[field] = list(value)
            self._merge("partition.reassign", "TOPIC", topic.name, {index: before}, {index: after})
        if record.leader != log.NO_LEADER_CHANGE and record.leader != partition.leader:
            self._merge(
                "leader.elect",
                "TOPIC",
                topic.name,
                {index: {"leader": partition.leader}},
                {index: {"leader": record.leader}},
            )

    # Configs, quotas and features

    def config(self, record: log.ConfigRecord) -> None:
        kind, name = record.resource_type, record.resource_name
        after = shown_value(kind, record.name, record.value)
        created = self._changes.get(_Key("topic.create", "TOPIC", name)) if kind == RESOURCE_TOPIC else None
        if created is not None and created[1] is not None:
            created[1]["configs"][record.name] = after
            return
        before = shown_value(kind, record.name, self._configs((kind, name)).get(record.name))
        self._merge(
            "config.alter", _RESOURCE_TYPES.get(kind, str(kind)), name, {record.name: before}, {record.name: after}
        )

    def _configs(self, resource: ConfigResource) -> Mapping[str, str]:
        return self._image.configs.get(resource, NO_CONFIG)

    def quota(self, record: log.ClientQuotaRecord) -> None:
        key: QuotaEntityKey = tuple(sorted((one.entity_type, one.entity_name) for one in record.entity))
        limits = self._image.client_quotas.get(key, {})
        self._merge(
            "quota.alter",
            "CLIENT_QUOTA",
            ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in key),
            {record.key: limits.get(record.key)},
            {record.key: None if record.remove else record.value},
        )

    def feature(self, record: log.FeatureLevelRecord) -> None:
        self.feature_level(record.name, self._image.features.level(record.name), record.feature_level)

    def feature_level(self, name: str, before: int, after: int) -> None:
        self._add("feature.update", "FEATURE", name, {"level": before}, {"level": after})

    # Security

    def acl(self, record: log.AccessControlEntryRecord) -> None:
        kind, name = name_of(ResourceType, record.resource_type), record.resource_name
        self._add("acl.create", kind, name, None, _describe_entry(record, record.id), part=record.id)

    def remove_acl(self, record: log.RemoveAccessControlEntryRecord) -> None:
        entry = self._image.access_control_entries.get(record.id)
        if entry is not None:
            kind, name = name_of(ResourceType, entry.resource_type), entry.resource_name
            self._add("acl.delete", kind, name, _describe_entry(entry, record.id), None, part=record.id)

    def scram(self, record: log.UserScramCredentialRecord) -> None:
        mechanism = _mechanism(record.mechanism)
        before = self._iterations(record.name, record.mechanism)
        self._merge(
            "scram_credential.alter",
            "USER",
            record.name,
            {mechanism: before},
            {mechanism: _credential(record.iterations)},
        )

    def remove_scram(self, record: log.RemoveUserScramCredentialRecord) -> None:
        mechanism = _mechanism(record.mechanism)
        before = self._iterations(record.name, record.mechanism)
        self._merge("scram_credential.delete", "USER", record.name, {mechanism: before}, {mechanism: None})

    def _iterations(self, user: str, mechanism: int) -> _Values | None:
        known = self._image.scram_credentials.get((user, mechanism))
        return None if known is None else _credential(known.iterations)

    def token(self, record: log.DelegationTokenRecord) -> None:
        known = self._image.delegation_tokens.get(record.token_id)
        after = {
            "owner": record.owner,
            "requester": record.requester,
            "renewers": list(record.renewers),
            "issue_timestamp": record.issue_timestamp,
            "max_timestamp": record.max_timestamp,
            "expiration_timestamp": record.expiration_timestamp,
        }
        event = "delegation_token.create" if known is None else "delegation_token.alter"
        self._add(event, "DELEGATION_TOKEN", record.token_id, None if known is None else _describe_token(known), after)

    def remove_token(self, record: log.RemoveDelegationTokenRecord) -> None:
        known = self._image.delegation_tokens.get(record.token_id)
        before = None if known is None else _describe_token(known)
        self._add("delegation_token.delete", "DELEGATION_TOKEN", record.token_id, before, None)

    # Brokers

    def unregister(self, record: log.UnregisterBrokerRecord) -> None:
        known = self._image.brokers.get(record.broker_id)
        before = (
            None
            if known is None
            else {
                "rack": known.rack,
                "fenced": known.fenced,
                "endpoints": [f"{one.name}://{one.host}:{one.port}" for one in known.endpoints],
            }
        )
        self._add("broker.unregister", "BROKER", str(record.broker_id), before, None)


def _describe_topic(topic: TopicImage) -> _Values:
    replicas = [len(partition.replicas) for partition in topic.partitions.values()]
    return {
        "id": uuid_to_text(topic.id),
        "partitions": len(topic.partitions),
        "replication_factor": max(replicas, default=0),
    }


def _describe_assignment(partition: PartitionImage) -> _Values:
    return {
        "replicas": list(partition.replicas),
        "adding": list(partition.adding),
        "removing": list(partition.removing),
    }


def _describe_entry(entry: AccessControlEntry | log.AccessControlEntryRecord, entry_id: UUID) -> _Values:
    return {
        "id": uuid_to_text(entry_id),
        "pattern_type": name_of(PatternType, entry.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": name_of(Operation, entry.operation),
        "permission": name_of(Permission, entry.permission_type),
    }


def _describe_token(token: DelegationToken) -> _Values:
    return {
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_timestamp": token.issue_timestamp_ms,
        "max_timestamp": token.max_timestamp_ms,
        "expiration_timestamp": token.expiration_timestamp_ms,
    }


def _mechanism(number: int) -> str:
    known = find_mechanism(number)
    return str(number) if known is None else known.text


def _credential(iterations: int) -> _Values:
    """Neither salt nor keys."""
    return {"iterations": iterations}


_HANDLERS: Final[Mapping[type[log.MetadataRecord], Callable[[_Found, Any], None]]] = {
    log.TopicRecord: _Found.topic,
    log.PartitionRecord: _Found.partition,
    log.RemoveTopicRecord: _Found.remove_topic,
    log.PartitionChangeRecord: _Found.partition_change,
    log.ConfigRecord: _Found.config,
    log.ClientQuotaRecord: _Found.quota,
    log.FeatureLevelRecord: _Found.feature,
    log.AccessControlEntryRecord: _Found.acl,
    log.RemoveAccessControlEntryRecord: _Found.remove_acl,
    log.UserScramCredentialRecord: _Found.scram,
    log.RemoveUserScramCredentialRecord: _Found.remove_scram,
    log.DelegationTokenRecord: _Found.token,
    log.RemoveDelegationTokenRecord: _Found.remove_token,
    log.UnregisterBrokerRecord: _Found.unregister,
}
