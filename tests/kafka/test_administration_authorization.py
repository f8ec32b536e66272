"""Requests of administration and for metadata without permissions: Odradek's responses equal Kafka's.

`tests/golden/authorization_of_administration.txt` contains Kafka's responses. They are recorded with
`make test ARGS="-m kafka -k administration_authorization --record-transcripts"`.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from odradek.core.security.resources import Operation
from odradek.wire.apis import ApiKey
from tests.components import ROOT
from tests.kafka.apache_kafka import ApacheKafka
from tests.kafka.side_by_side.transcript import Names, render
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.secured_node import Permissions, SecuredNode
from tests.unit.fake_access import Grant, on_cluster, on_topic

GOLDEN = ROOT / "tests" / "golden" / "authorization_of_administration.txt"
NODE_ID = "1"
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
UNKNOWN_ID = UUID(int=77)
ID_OF_T = "the ID of t"
"""Replaced by the ID that the node has chosen."""
CREATE, DELETE, ALTER, DESCRIBE = Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE
# Kafka writes the whole connection into this message.
_NEEDED = re.compile(r"Request .*? needs (\w+) permission\.")


class Case(NamedTuple):
    key: ApiKey
    versions: tuple[int, ...]
    fields: dict[str, Any]
    grants: tuple[Grant, ...] = ()

    def title(self, version: int) -> str:
        grants = ", ".join(f"{one[0].name} {one[1].name} {one[2]}" for one in self.grants) or "nothing"
        return f"{self.key.name} v{version} {self.fields} with {grants}"


def metadata(*names: str, **fields: Any) -> dict[str, Any]:
    topics = [{"name": name, "topic_id": None} for name in names] or None
    return {"topics": topics, "allow_auto_topic_creation": False, **fields}


def new_topics(*names: str) -> dict[str, Any]:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return {"topics": topics, "timeout": 10_000, "validate_only": True}


def resources(*named: tuple[int, str], **fields: Any) -> dict[str, Any]:
    listed = [{"resource_type": kind, "resource_name": name, **fields} for kind, name in named]
    return {"resources": listed, "validate_only": True}


EVERY_RESOURCE = ((TOPIC, "t"), (TOPIC, "gone"), (GROUP, "g"), (BROKER, NODE_ID), (CLIENT_METRICS, "m"))
BY_NAME_AND_ID = {
    "topics": [
        {"name": "t", "topic_id": None},
        {"name": "gone", "topic_id": None},
        {"name": None, "topic_id": UNKNOWN_ID},
        {"name": "twice", "topic_id": None},
        {"name": "twice", "topic_id": None},
    ],
    "timeout": 10_000,
}
BY_ID = {"topics": [{"name": None, "topic_id": ID_OF_T}], "timeout": 10_000}
LEVEL = {"name": "root", "config_operation": 0, "value": "INFO"}
CASES = [
    Case(ApiKey.METADATA, (0, 1, 4, 8, 12, 13), metadata("t", "gone", "a/b", "__consumer_offsets")),
    Case(ApiKey.METADATA, (9, 12), metadata("t", "u", "gone", include_topic_authorized_operations=True),
         (on_topic(DESCRIBE, "t"), on_topic(Operation.READ, "gone"))),
    Case(ApiKey.METADATA, (1, 12), metadata(include_topic_authorized_operations=True), (on_topic(DESCRIBE, "u"),)),
    Case(ApiKey.METADATA, (12,), {"topics": [{"name": None, "topic_id": one} for one in (ID_OF_T, UNKNOWN_ID)]}),
    Case(ApiKey.METADATA, (12,), metadata("n", "a/b", "__transaction_state", allow_auto_topic_creation=True),
         (on_topic(DESCRIBE, "n"), on_topic(DESCRIBE, "a/b"), on_topic(DESCRIBE, "__transaction_state"))),
    Case(ApiKey.METADATA, (8, 10), metadata("t", include_cluster_authorized_operations=True),
         (on_cluster(CREATE), on_topic(DESCRIBE, "t"))),
    Case(ApiKey.METADATA, (8, 10), metadata("t", include_cluster_authorized_operations=True), (on_cluster(DESCRIBE),)),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0,), {"topics": [{"name": "t"}, {"name": "gone"}, {"name": "u"}],
         "response_partition_limit": 10}, (on_topic(DESCRIBE, "u"),)),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0,), {"topics": [], "response_partition_limit": 10}),
    Case(ApiKey.CREATE_TOPICS, (2, 5, 7), new_topics("t", "new", "a/b", "twice", "twice", "__cluster_metadata")),
    Case(ApiKey.CREATE_TOPICS, (5, 7), new_topics("t", "new", "other"),
         (on_topic(CREATE, "t"), on_topic(CREATE, "new"))),
    Case(ApiKey.CREATE_TOPICS, (4, 6), new_topics("t", "new"), (on_cluster(CREATE),)),
    Case(ApiKey.DELETE_TOPICS, (6,), BY_NAME_AND_ID),
    Case(ApiKey.DELETE_TOPICS, (6,), BY_NAME_AND_ID, (on_topic(DESCRIBE, "t"), on_topic(DESCRIBE, "gone"))),
    Case(ApiKey.DELETE_TOPICS, (6,), BY_ID),
    Case(ApiKey.DELETE_TOPICS, (6,), BY_ID, (on_topic(DESCRIBE, "t"),)),
    Case(ApiKey.DELETE_TOPICS, (1, 5), {"topic_names": ["t", "gone"], "timeout": 10_000}),
    Case(ApiKey.CREATE_PARTITIONS, (0, 3), {"topics": [{"name": name, "count": 9, "assignments": None}
         for name in ("t", "gone", "u")], "timeout": 10_000, "validate_only": True}, (on_topic(ALTER, "u"),)),
    Case(ApiKey.DESCRIBE_CONFIGS, (1, 4), resources(*EVERY_RESOURCE, (LOGGER, NODE_ID), configuration_keys=None)),
    Case(ApiKey.DESCRIBE_CONFIGS, (4,),
         resources((TOPIC, "u"), (TOPIC, "gone"), (TOPIC, "t"), configuration_keys=["x"]),
         (on_topic(Operation.ALTER_CONFIGS, "gone"), on_topic(Operation.DESCRIBE_CONFIGS, "t"))),
    Case(ApiKey.ALTER_CONFIGS, (0, 2), resources(*EVERY_RESOURCE, (LOGGER, NODE_ID))),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), resources(*EVERY_RESOURCE)),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, (1,), resources((LOGGER, NODE_ID), (LOGGER, "x"), configs=[LEVEL])),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, (1,), resources((LOGGER, NODE_ID), configs=[LEVEL, LEVEL])),
    Case(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), {"resource_types": []}),
    Case(ApiKey.LIST_CONFIG_RESOURCES, (1,), {"resource_types": [99]}),
    Case(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2),
         {"dirs": [{"path": "/x", "topics": [{"name": "t", "partitions": [0, 9]}]}]}),
    Case(ApiKey.DESCRIBE_LOG_DIRS, (1, 2, 3, 5), {"topics": None}),
    Case(ApiKey.ELECT_LEADERS, (0, 1, 2), {"election_type": 0, "timeout": 1000,
         "topic_partitions": [{"topic": "t", "partitions": [0, 9]}]}),
    Case(ApiKey.ELECT_LEADERS, (2,), {"election_type": 0, "topic_partitions": None, "timeout": 1000}),
    Case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), {"timeout": 1000,
         "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}),
    Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0,), {"topics": [{"name": "t", "partition_indexes": [0, 9]}]}),
    Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0,), {"topics": None}),
    Case(ApiKey.DESCRIBE_QUORUM, (0, 1, 2), {"topics": []}),
    Case(ApiKey.UPDATE_FEATURES, (0, 1, 2), {"feature_updates": [], "timeout": 1000}),
    Case(ApiKey.DESCRIBE_CLUSTER, (0, 1, 2), {"endpoint_type": 1, "include_cluster_authorized_operations": True}),
    Case(ApiKey.DESCRIBE_CLUSTER, (1,), {"endpoint_type": 1, "include_cluster_authorized_operations": True},
         (on_cluster(DESCRIBE), on_cluster(Operation.ALTER_CONFIGS))),
    Case(ApiKey.DESCRIBE_CLUSTER, (1,), {"endpoint_type": 2}),
    Case(ApiKey.UNREGISTER_BROKER, (0,), {"broker_id": 77}),
    Case(ApiKey.ADD_RAFT_VOTER, (0, 1), {"voter_id": 7, "listeners": []}),
    Case(ApiKey.REMOVE_RAFT_VOTER, (0,), {"voter_id": 7}),
]  # fmt: skip


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The responses as text, by title."""
    directory = tmp_path_factory.mktemp(request.param)
    is_kafka = request.param == "kafka"
    node: NodeProcess
    if is_kafka:
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory)
    else:
        node = OdradekProcess(directory)
    secured = SecuredNode(node)
    try:
        node.start()
        responses = play(secured)
    finally:
        node.remove()
    if is_kafka and request.config.getoption("--record-transcripts"):
        GOLDEN.write_text("".join(f"> {title}\n{text}" for title, text in responses.items()))
    yield responses


def play(secured: SecuredNode) -> dict[str, str]:
    names = Names()
    names.text(f"{secured.port}", "<port>")
    with RawConnection(secured.node.port) as admin:
        topics = {**new_topics("t", "u"), "validate_only": False}
        for one in admin.request(ApiKey.CREATE_TOPICS, 7, topics).topics:
            names.uuid(one.topic_id, f"<id of {one.name}>")
            if one.name == "t":
                id_of_t = one.topic_id
    names.uuid(UNKNOWN_ID, "<unknown id>")
    permissions = Permissions(secured.node)
    responses: dict[str, str] = {}
    with secured.connect() as client:
        for case in CASES:
            permissions.grant(case.grants)
            for version in case.versions:
                response = client.request(case.key, version, with_id(case.fields, id_of_t))
                lines = (_NEEDED.sub(r"The request needs \1 permission.", one) for one in render(response, names))
                responses[case.title(version)] = "".join(f"  {names.in_text(line)}\n" for line in lines)
    permissions.close()
    return responses


def with_id(value: Any, topic_id: UUID) -> Any:
    if isinstance(value, dict):
        return {key: with_id(one, topic_id) for key, one in value.items()}
    if isinstance(value, list):
        return [with_id(one, topic_id) for one in value]
    return topic_id if value == ID_OF_T else value


def golden() -> dict[str, str]:
    sections = (part.partition("\n") for part in f"\n{GOLDEN.read_text()}".split("\n> ")[1:])
    return {title: text.rstrip("\n") for title, _, text in sections}


TITLES = [case.title(version) for case in CASES for version in case.versions]


def test_every_title_is_unique() -> None:
    assert len(set(TITLES)) == len(TITLES)


@pytest.mark.parametrize("title", TITLES, ids=[title.split(" {")[0] for title in TITLES])
def test_response_equals_kafkas(title: str, played: dict[str, str]) -> None:
    assert played[title].rstrip("\n") == golden()[title]
