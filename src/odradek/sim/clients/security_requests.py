"""Requests whose results show what a user is allowed to do: each with the permissions that it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.core.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from odradek.core.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from odradek.records.builder import build_batch
from odradek.records.record import Record
from odradek.sim.clients.admin import creation_request
from odradek.sim.clients.producer import produce_request
from odradek.sim.security_history import Check
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema, schema

TOPICS: Final = ("orders", "orders-eu", "payments")
NEW_TOPICS: Final = ("orders-new", "payments-new")
"""Their creation is only validated."""
FETCH_BYTES_MAX: Final = 10_000
_SET: Final = 0
_DENIALS: Final = frozenset({ErrorCode.topic_authorization_failed, ErrorCode.cluster_authorization_failed})
_UNDECIDED: Final = frozenset({ErrorCode.unknown_server_error, ErrorCode.request_timed_out, ErrorCode.not_controller})
"""The request may have failed before it was authorized."""

Outcome = tuple[tuple[Check, ...], bool | None]
"""The permissions of which one is needed, and whether the request was allowed; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredRequest:
    chosen: Schema
    message: Message
    read: Callable[[Message], Sequence[Outcome]]
    is_forwarded: bool = False
    quota_key: str | None = None
    size_bytes: int = 0
    """Of its records."""

    @property
    def name(self) -> str:
        return str(self.chosen.api_name)


def random_request(random: Random, now_ms: int) -> SecuredRequest:
    kind = random.choice(_KINDS)
    return kind(random, now_ms)


def all_requests(random: Random, now_ms: int) -> list[SecuredRequest]:
    """One of each kind."""
    return [kind(random, now_ms) for kind in dict.fromkeys(_KINDS)]


def metadata_request(topics: Sequence[str] | None) -> tuple[Schema, Message]:
    chosen = schema(ApiKey.METADATA, 12)
    named = (
        None
        if topics is None
        else tuple(chosen.new("MetadataRequestTopic", topic_id=None, name=name) for name in topics)
    )
    return chosen, chosen.new(
        "MetadataRequest",
        topics=named,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def token_request(lifetime_ms: int) -> tuple[Schema, Message]:
    chosen = schema(ApiKey.CREATE_DELEGATION_TOKEN, 3)
    return chosen, chosen.new(
        "CreateDelegationTokenRequest",
        owner_principal_type=None,
        owner_principal_name=None,
        renewers=(),
        max_lifetime=lifetime_ms,
    )


def create_topic_request(random: Random) -> tuple[Schema, Message]:
    chosen = schema(ApiKey.CREATE_TOPICS, 7)
    return chosen, creation_request(chosen, random.choice(NEW_TOPICS), 1, {}, 1, validate_only=True)


# ---- each kind


def _metadata(random: Random, now_ms: int) -> SecuredRequest:
    chosen, message = metadata_request(TOPICS)
    return SecuredRequest(
        chosen=chosen,
        message=message,
        read=lambda response: [
            _outcome(one.error_code, _topic(Operation.DESCRIBE, one.name)) for one in response.topics
        ],
    )


def _visible_topics(random: Random, now_ms: int) -> SecuredRequest:
    """A broker whose metadata is behind may not know a topic: only visible ones prove anything."""
    chosen, message = metadata_request(None)
    return SecuredRequest(
        chosen=chosen,
        message=message,
        read=lambda response: [
            _outcome(one.error_code, _topic(Operation.DESCRIBE, one.name)) for one in response.topics
        ],
    )


def _produce(random: Random, now_ms: int) -> SecuredRequest:
    topic, chosen = random.choice(TOPICS), schema(ApiKey.PRODUCE, 9)
    value = b"x" * random.choice((10, 300, 2000))
    message = produce_request(
        chosen, TopicPartition(topic, 0), None, build_batch([Record(None, value, now_ms)]), acks=1
    )
    return SecuredRequest(
        chosen=chosen,
        message=message,
        read=lambda response: [
            _outcome(response.responses[0].partition_responses[0].error_code, _topic(Operation.WRITE, topic))
        ],
        quota_key=PRODUCER_BYTE_RATE,
        size_bytes=len(value),
    )


def _fetch(random: Random, now_ms: int) -> SecuredRequest:
    topic, chosen = random.choice(TOPICS), schema(ApiKey.FETCH, 12)
    partition = chosen.new(
        "FetchPartition",
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES_MAX,
    )
    message = chosen.new(
        "FetchRequest",
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(chosen.new("FetchTopic", topic=topic, partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )
    return SecuredRequest(
        chosen=chosen,
        message=message,
        read=lambda response: (
            [_outcome(response.responses[0].partitions[0].error_code, _topic(Operation.READ, topic))]
            if response.responses
            else []
        ),
        quota_key=CONSUMER_BYTE_RATE,
    )


def _describe_configs(random: Random, now_ms: int) -> SecuredRequest:
    topic, chosen = random.choice(TOPICS), schema(ApiKey.DESCRIBE_CONFIGS, 4)
    resource = chosen.new(
        "DescribeConfigsResource", resource_type=RESOURCE_TOPIC, resource_name=topic, configuration_keys=()
    )
    return SecuredRequest(
        chosen=chosen,
        message=chosen.new(
            "DescribeConfigsRequest", resources=(resource,), include_synonyms=False, include_documentation=False
        ),
        read=lambda response: [_outcome(response.results[0].error_code, _topic(Operation.DESCRIBE_CONFIGS, topic))],
    )


def _describe_acls(random: Random, now_ms: int) -> SecuredRequest:
    chosen = schema(ApiKey.DESCRIBE_ACLS, 3)
    message = chosen.new(
        "DescribeAclsRequest",
        resource_type_filter=ResourceType.GROUP,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    return SecuredRequest(
        chosen=chosen,
        message=message,
        read=lambda response: [_outcome(response.error_code, _cluster(Operation.DESCRIBE))],
    )


def _alter_configs(random: Random, now_ms: int) -> SecuredRequest:
    topic, chosen = random.choice(TOPICS), schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    config = chosen.new("AlterableConfig", name="retention.ms", config_operation=_SET, value="600000")
    resource = chosen.new("AlterConfigsResource", resource_type=RESOURCE_TOPIC, resource_name=topic, configs=(config,))
    return SecuredRequest(
        chosen=chosen,
        message=chosen.new("IncrementalAlterConfigsRequest", resources=(resource,), validate_only=True),
        read=lambda response: [_outcome(response.responses[0].error_code, _topic(Operation.ALTER_CONFIGS, topic))],
        is_forwarded=True,
    )


def _create_topic(random: Random, now_ms: int) -> SecuredRequest:
    chosen, message = create_topic_request(random)
    return SecuredRequest(
        chosen=chosen,
        message=message,
        read=lambda response: [
            _outcome(one.error_code, _cluster(Operation.CREATE), _topic(Operation.CREATE, one.name))
            for one in response.topics
        ],
        is_forwarded=True,
    )


def _alter_quotas(random: Random, now_ms: int) -> SecuredRequest:
    chosen = schema(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    return SecuredRequest(
        chosen=chosen,
        message=quota_request(chosen, {"user": "nobody"}, PRODUCER_BYTE_RATE, 1000.0, validate_only=True),
        read=lambda response: [_outcome(response.entries[0].error_code, _cluster(Operation.ALTER_CONFIGS))],
        is_forwarded=True,
    )


def quota_request(
    chosen: Schema, entity: dict[str, str | None], key: str, value: float | None, *, validate_only: bool = False
) -> Message:
    """`value` None removes the quota."""
    parts = tuple(
        chosen.new_in_request("EntityData", entity_type=kind, entity_name=name) for kind, name in entity.items()
    )
    change = chosen.new_in_request("OpData", key=key, value=value or 0.0, remove=value is None)
    entry = chosen.new_in_request("EntryData", entity=parts, ops=(change,))
    return chosen.new("AlterClientQuotasRequest", entries=(entry,), validate_only=validate_only)


def _topic(operation: Operation, name: str) -> Check:
    return Check(operation, ResourceType.TOPIC, name)


def _cluster(operation: Operation) -> Check:
    return Check(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def _outcome(code: ErrorCode, *any_of: Check) -> Outcome:
    return any_of, None if code in _UNDECIDED else code not in _DENIALS


_KINDS: Final = (
    *(_metadata, _metadata, _visible_topics, _produce, _produce, _produce, _fetch, _fetch, _describe_configs),
    *(_describe_acls, _alter_configs, _alter_configs, _create_topic, _create_topic, _alter_quotas),
)
