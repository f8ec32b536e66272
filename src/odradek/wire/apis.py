"""The one table of APIs, for routing, ApiVersions, forwarding and (in the future) authorization.

ApiVersions advertises exactly these versions, so an API is listed only once it is complete. A listener imports the
module of a handler with the first request: a process that never serves an API never loads its code.
"""

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """Every API of Kafka, served here or not."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Check(NamedTuple):
    """An ACL operation on a type of resource, as Kafka names both."""

    operation: str
    resource: str


class Api(NamedTuple):
    """One row of the table. A handler is the path of a module below `odradek`; None: not served on that listener."""

    key: ApiKey
    low: int
    high: int
    broker_handler: str | None
    controller_handler: str | None
    served_from: int
    """Kafka advertises Produce from version 0, which old versions of librdkafka expect, and serves it from 3."""
    is_forwardable: bool
    """Whether a broker may send a client's request to the active controller, inside an Envelope."""
    is_internal: bool
    """Whether only brokers and controllers send it."""
    checks: tuple[Check, ...]
    """What Kafka authorizes, depending on the request's contents. Empty: open to every authenticated principal."""


class ServedApi(NamedTuple):
    """An API as one type of listener serves it."""

    key: ApiKey
    low: int
    high: int
    handler: str
    served_from: int


_FORWARDED: Final = "broker.apis.forwarded"
_CONSENSUS: Final = "quorum.apis.raft"


def _checks(texts: tuple[str, ...]) -> tuple[Check, ...]:
    return tuple(Check(*text.split()) for text in texts)


def _broker_api(key: ApiKey, low: int, high: int, *checks: str, served_from: int | None = None) -> Api:
    """Served by brokers, in a module of the API's name."""
    handler = f"broker.apis.{key.name.lower()}"
    first = low if served_from is None else served_from
    return Api(key, low, high, handler, None, first, is_forwardable=False, is_internal=False, checks=_checks(checks))


def _shared_api(key: ApiKey, low: int, high: int, *checks: str, broker: str, controller: str) -> Api:
    """Served by brokers and by controllers, each by itself."""
    return Api(key, low, high, broker, controller, low, is_forwardable=False, is_internal=False, checks=_checks(checks))


def _forwarded_api(
    key: ApiKey, low: int, high: int, *checks: str, broker: str = _FORWARDED, controller: str | None = None
) -> Api:
    """Brokers forward it; the active controller executes it, in a module of the API's name unless it is given."""
    controller = controller or f"quorum.apis.{key.name.lower()}"
    return Api(key, low, high, broker, controller, low, is_forwardable=True, is_internal=False, checks=_checks(checks))


def _internal_api(
    key: ApiKey, low: int, high: int, *, controller: str | None = None, is_forwardable: bool = False
) -> Api:
    """Sent by brokers and controllers to a controller, which serves it in a module of the API's name by default."""
    controller = controller or f"quorum.apis.{key.name.lower()}"
    checks = (Check("CLUSTER_ACTION", "CLUSTER"),)
    return Api(key, low, high, None, controller, low, is_forwardable, is_internal=True, checks=checks)


def _unserved_api(key: ApiKey, *checks: str) -> Api:
    """Not served yet. Inside an Envelope it is rejected as an unsupported version."""
    return Api(key, 0, -1, None, None, 0, is_forwardable=True, is_internal=False, checks=_checks(checks))


APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        _broker_api(ApiKey.PRODUCE, 0, 13, "WRITE TRANSACTIONAL_ID", "WRITE TOPIC", served_from=3),
        _shared_api(
            ApiKey.FETCH,
            4,
            18,
            "READ TOPIC",
            "CLUSTER_ACTION CLUSTER",
            broker="broker.apis.fetch",
            controller=_CONSENSUS,
        ),
        _broker_api(ApiKey.LIST_OFFSETS, 1, 11, "DESCRIBE TOPIC"),
        _broker_api(ApiKey.METADATA, 0, 13, "DESCRIBE TOPIC", "CREATE CLUSTER", "CREATE TOPIC", "DESCRIBE CLUSTER"),
        _broker_api(ApiKey.OFFSET_COMMIT, 2, 10, "READ GROUP", "READ TOPIC"),
        _broker_api(ApiKey.OFFSET_FETCH, 1, 10, "DESCRIBE GROUP", "DESCRIBE TOPIC"),
        _broker_api(
            ApiKey.FIND_COORDINATOR,
            0,
            6,
            "DESCRIBE GROUP",
            "DESCRIBE TRANSACTIONAL_ID",
            "CLUSTER_ACTION CLUSTER",
            "CREATE CLUSTER",
            "CREATE TOPIC",
        ),
        _broker_api(ApiKey.JOIN_GROUP, 0, 9, "READ GROUP"),
        _broker_api(ApiKey.HEARTBEAT, 0, 4, "READ GROUP"),
        _broker_api(ApiKey.LEAVE_GROUP, 0, 5, "READ GROUP"),
        _broker_api(ApiKey.SYNC_GROUP, 0, 5, "READ GROUP"),
        _broker_api(ApiKey.DESCRIBE_GROUPS, 0, 6, "DESCRIBE GROUP"),
        _broker_api(ApiKey.LIST_GROUPS, 0, 5, "DESCRIBE CLUSTER", "DESCRIBE GROUP"),
        _shared_api(
            ApiKey.SASL_HANDSHAKE, 0, 1, broker="server.apis.sasl_handshake", controller="server.apis.sasl_handshake"
        ),
        _shared_api(
            ApiKey.API_VERSIONS, 0, 4, broker="broker.apis.api_versions", controller="quorum.apis.api_versions"
        ),
        _forwarded_api(ApiKey.CREATE_TOPICS, 2, 7, "CREATE CLUSTER", "CREATE TOPIC", "DESCRIBE_CONFIGS TOPIC"),
        _forwarded_api(ApiKey.DELETE_TOPICS, 1, 6, "DELETE CLUSTER", "DESCRIBE TOPIC", "DELETE TOPIC"),
        _broker_api(ApiKey.DELETE_RECORDS, 0, 2, "DELETE TOPIC"),
        _broker_api(
            ApiKey.INIT_PRODUCER_ID,
            0,
            5,
            "WRITE TRANSACTIONAL_ID",
            "TWO_PHASE_COMMIT TRANSACTIONAL_ID",
            "IDEMPOTENT_WRITE CLUSTER",
            "WRITE TOPIC",
        ),
        _broker_api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "CLUSTER_ACTION CLUSTER", "DESCRIBE TOPIC"),
        _broker_api(
            ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "WRITE TRANSACTIONAL_ID", "WRITE TOPIC", "CLUSTER_ACTION CLUSTER"
        ),
        _broker_api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "WRITE TRANSACTIONAL_ID", "READ GROUP"),
        _broker_api(ApiKey.END_TXN, 0, 5, "WRITE TRANSACTIONAL_ID"),
        _broker_api(ApiKey.WRITE_TXN_MARKERS, 1, 2, "ALTER CLUSTER", "CLUSTER_ACTION CLUSTER"),
        _broker_api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, "WRITE TRANSACTIONAL_ID", "READ GROUP", "READ TOPIC"),
        _shared_api(
            ApiKey.DESCRIBE_ACLS,
            1,
            3,
            "DESCRIBE CLUSTER",
            broker="server.apis.describe_acls",
            controller="server.apis.describe_acls",
        ),
        _forwarded_api(ApiKey.CREATE_ACLS, 1, 3, "ALTER CLUSTER", broker="broker.apis.acl_changes"),
        _forwarded_api(ApiKey.DELETE_ACLS, 1, 3, "ALTER CLUSTER", broker="broker.apis.acl_changes"),
        _shared_api(
            ApiKey.DESCRIBE_CONFIGS,
            1,
            4,
            "DESCRIBE_CONFIGS CLUSTER",
            "DESCRIBE_CONFIGS TOPIC",
            "DESCRIBE_CONFIGS GROUP",
            broker="server.apis.describe_configs",
            controller="quorum.apis.describe_configs",
        ),
        _forwarded_api(
            ApiKey.ALTER_CONFIGS,
            0,
            2,
            "ALTER_CONFIGS CLUSTER",
            "ALTER_CONFIGS TOPIC",
            "ALTER_CONFIGS GROUP",
            broker="broker.apis.alter_configs",
        ),
        _broker_api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, "ALTER CLUSTER"),
        _broker_api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, "DESCRIBE CLUSTER"),
        _shared_api(
            ApiKey.SASL_AUTHENTICATE,
            0,
            2,
            broker="server.apis.sasl_authenticate",
            controller="server.apis.sasl_authenticate",
        ),
        _forwarded_api(ApiKey.CREATE_PARTITIONS, 0, 3, "ALTER TOPIC"),
        _forwarded_api(
            ApiKey.CREATE_DELEGATION_TOKEN,
            1,
            3,
            "CREATE_TOKENS USER",
            broker="broker.apis.create_delegation_token",
        ),
        _forwarded_api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, broker="broker.apis.renew_delegation_token"),
        _forwarded_api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, broker="broker.apis.expire_delegation_token"),
        _broker_api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, "DESCRIBE DELEGATION_TOKEN", "DESCRIBE_TOKENS USER"),
        _broker_api(ApiKey.DELETE_GROUPS, 0, 2, "DELETE GROUP"),
        _forwarded_api(ApiKey.ELECT_LEADERS, 0, 2, "ALTER CLUSTER"),
        _forwarded_api(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            0,
            1,
            "ALTER_CONFIGS CLUSTER",
            "ALTER_CONFIGS TOPIC",
            "ALTER_CONFIGS GROUP",
            "CLUSTER_ACTION CLUSTER",
            broker="broker.apis.incremental_alter_configs",
        ),
        _forwarded_api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "ALTER CLUSTER"),
        _forwarded_api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "DESCRIBE CLUSTER"),
        _broker_api(ApiKey.OFFSET_DELETE, 0, 0, "DELETE GROUP", "READ TOPIC"),
        _broker_api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "DESCRIBE_CONFIGS CLUSTER"),
        _forwarded_api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "ALTER_CONFIGS CLUSTER"),
        _broker_api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "DESCRIBE CLUSTER"),
        _forwarded_api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "ALTER CLUSTER"),
        _internal_api(ApiKey.VOTE, 0, 2, controller=_CONSENSUS),
        _internal_api(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, controller=_CONSENSUS),
        _internal_api(ApiKey.END_QUORUM_EPOCH, 0, 1, controller=_CONSENSUS),
        _forwarded_api(ApiKey.DESCRIBE_QUORUM, 0, 2, "DESCRIBE CLUSTER", controller=_CONSENSUS),
        _internal_api(ApiKey.ALTER_PARTITION, 2, 3),
        _forwarded_api(ApiKey.UPDATE_FEATURES, 0, 2, "ALTER CLUSTER"),
        _internal_api(ApiKey.ENVELOPE, 0, 0),
        _internal_api(ApiKey.FETCH_SNAPSHOT, 0, 1, controller=_CONSENSUS),
        _shared_api(
            ApiKey.DESCRIBE_CLUSTER,
            0,
            2,
            "DESCRIBE CLUSTER",
            "ALTER CLUSTER",
            broker="broker.apis.describe_cluster",
            controller="quorum.apis.describe_cluster",
        ),
        _broker_api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "READ TOPIC"),
        _internal_api(ApiKey.BROKER_REGISTRATION, 0, 4),
        _internal_api(ApiKey.BROKER_HEARTBEAT, 0, 2),
        _forwarded_api(ApiKey.UNREGISTER_BROKER, 0, 0, "ALTER CLUSTER"),
        _broker_api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "DESCRIBE TRANSACTIONAL_ID", "DESCRIBE TOPIC"),
        _broker_api(ApiKey.LIST_TRANSACTIONS, 0, 2, "DESCRIBE TRANSACTIONAL_ID"),
        _internal_api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, is_forwardable=True),
        _broker_api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "READ GROUP", "DESCRIBE TOPIC"),
        _broker_api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "DESCRIBE GROUP", "DESCRIBE TOPIC"),
        _internal_api(ApiKey.CONTROLLER_REGISTRATION, 0, 0),
        _internal_api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0),
        _broker_api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "DESCRIBE_CONFIGS CLUSTER"),
        _broker_api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "DESCRIBE TOPIC"),
        _forwarded_api(ApiKey.ADD_RAFT_VOTER, 0, 1, "ALTER CLUSTER", controller=_CONSENSUS),
        _forwarded_api(ApiKey.REMOVE_RAFT_VOTER, 0, 0, "ALTER CLUSTER", controller=_CONSENSUS),
        _internal_api(ApiKey.UPDATE_RAFT_VOTER, 0, 0, controller=_CONSENSUS),
    )
}
FORWARDABLE_APIS: Final = frozenset(key for key, api in APIS.items() if api.is_forwardable)
INTERNAL_APIS: Final = frozenset(key for key, api in APIS.items() if api.is_internal)
# Executed by the quorum's leader, without the metadata state machine.
CONSENSUS_APIS: Final = frozenset(key for key, api in APIS.items() if api.controller_handler == _CONSENSUS)

BROKER_APIS: Final[Mapping[int, ServedApi]] = {
    key: ServedApi(api.key, api.low, api.high, api.broker_handler, api.served_from)
    for key, api in APIS.items()
    if api.broker_handler is not None
}
CONTROLLER_APIS: Final[Mapping[int, ServedApi]] = {
    key: ServedApi(api.key, api.low, api.high, api.controller_handler, api.served_from)
    for key, api in APIS.items()
    if api.controller_handler is not None
}

# The first version of InitProducerId that offers two-phase commit (KIP-939).
_INIT_PRODUCER_ID_TWO_PHASE: Final = 6


def broker_apis(*, two_phase_commit: bool) -> Mapping[int, ServedApi]:
    """The APIs on a broker's client listeners, as `transaction.two.phase.commit.enable` determines."""
    if not two_phase_commit:
        return BROKER_APIS
    key = ApiKey.INIT_PRODUCER_ID
    return {**BROKER_APIS, key: BROKER_APIS[key]._replace(high=_INIT_PRODUCER_ID_TWO_PHASE)}


def load_handler(api: ServedApi) -> ModuleType:
    return import_module(f"odradek.{api.handler}")
