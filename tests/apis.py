"""The APIs that Odradek serves, by Apache Kafka 4.3.1's keys and version ranges (Produce is served from 3)."""

from enum import IntEnum


class Api(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81


_VERSIONS = {
    Api.PRODUCE: (3, 13),
    Api.FETCH: (4, 18),
    Api.LIST_OFFSETS: (1, 11),
    Api.METADATA: (0, 13),
    Api.API_VERSIONS: (0, 4),
    Api.CREATE_TOPICS: (2, 7),
    Api.DELETE_TOPICS: (1, 6),
    Api.DELETE_RECORDS: (0, 2),
    Api.INIT_PRODUCER_ID: (0, 5),
    Api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.ALTER_CONFIGS: (0, 2),
    Api.ALTER_REPLICA_LOG_DIRS: (1, 2),
    Api.DESCRIBE_LOG_DIRS: (1, 5),
    Api.CREATE_PARTITIONS: (0, 3),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.DESCRIBE_QUORUM: (0, 2),
    Api.UPDATE_FEATURES: (0, 2),
    Api.DESCRIBE_CLUSTER: (0, 2),
    Api.DESCRIBE_PRODUCERS: (0, 0),
    Api.UNREGISTER_BROKER: (0, 0),
    Api.LIST_CONFIG_RESOURCES: (0, 1),
    Api.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    Api.ADD_RAFT_VOTER: (0, 1),
    Api.REMOVE_RAFT_VOTER: (0, 0),
}


def versions(api: Api) -> range:
    lowest, highest = _VERSIONS[api]
    return range(lowest, highest + 1)


def latest(api: Api) -> int:
    return _VERSIONS[api][1]
