"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario

UNKNOWN_ID = UUID(int=0xFEED)
ILLEGAL_NAMES = ("", ".", "..", "no/slash", "no space", "colon:", "ünïcode", "a" * 249, "a" * 250)


def _about(names: Sequence[str] | None, **others: Any) -> dict[str, Any]:
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": False, **others}


@scenario
def metadata_versions(talk: Conversation) -> None:
    talk.create_topic("known", partitions=3)
    talk.request_each_version("one topic", Api.METADATA, _about(["known"]))
    talk.request_each_version("all topics", Api.METADATA, _about(None), start=1)
    talk.request_each_version("an empty list", Api.METADATA, _about([]))
    talk.request_each_version("a topic that is not there", Api.METADATA, _about(["nowhere"]), start=4)
    talk.request_each_version(
        "with authorized operations",
        Api.METADATA,
        _about(["known"], include_topic_authorized_operations=True, include_cluster_authorized_operations=True),
        start=8,
    )
    talk.request("the same topic twice", Api.METADATA, _about(["known", "known"]))


@scenario
def metadata_by_id(talk: Conversation) -> None:
    topic_id = talk.create_topic("by-id")
    for version in (10, 11, 12, 13):
        for label, topic in (
            ("an id", {"topic_id": topic_id, "name": None}),
            ("an unknown id", {"topic_id": UNKNOWN_ID, "name": None}),
            ("an id and a name", {"topic_id": topic_id, "name": "by-id"}),
            ("neither id nor name", {"topic_id": None, "name": None}),
        ):
            if version < 12 and topic["name"] is None and topic["topic_id"] is None:
                continue
            talk.request(label, Api.METADATA, {"topics": [topic]}, version=version)


@scenario
def metadata_names(talk: Conversation) -> None:
    for name in ILLEGAL_NAMES:
        label = name if len(name) < 20 else f"{len(name)} characters"
        talk.request(f"{label!r}, no creation", Api.METADATA, _about([name]))
        if name != "a" * 249:
            talk.request(f"{label!r}, creation allowed", Api.METADATA, _about([name], allow_auto_topic_creation=True))


@scenario
def metadata_creates_topics(talk: Conversation) -> None:
    for version in (0, 3, 4, 9, 13):
        name = f"auto-{version}"
        talk.remember_topic(name)
        fields = _about([name], allow_auto_topic_creation=True)
        talk.request("creation allowed", Api.METADATA, fields, version=version)
        talk.until_partitions(name, 1)
        talk.request("and then it is there", Api.METADATA, _about([name]), version=9)


@scenario
def describe_cluster(talk: Conversation) -> None:
    talk.request_each_version("plainly", Api.DESCRIBE_CLUSTER, {})
    talk.request_each_version(
        "with authorized operations", Api.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True}
    )
    talk.request("fenced brokers too", Api.DESCRIBE_CLUSTER, {"include_fenced_brokers": True})
    for endpoint_type in (0, 2, 3):
        talk.request(f"endpoint type {endpoint_type}", Api.DESCRIBE_CLUSTER, {"endpoint_type": endpoint_type})


@scenario
def describe_topic_partitions(talk: Conversation) -> None:
    def about(*names: str, **others: Any) -> dict[str, Any]:
        return {"topics": [{"name": name} for name in names], "response_partition_limit": 2000, **others}

    talk.create_topic("alpha", partitions=3)
    talk.create_topic("beta", partitions=2)
    api = Api.DESCRIBE_TOPIC_PARTITIONS
    talk.request("two topics", api, about("alpha", "beta"))
    talk.request("all topics", api, about())
    talk.request("a topic that is not there", api, about("nowhere"))
    talk.request("illegal names", api, about("", "no/slash"))
    for limit in (1, 3, 4, 0, -1):
        talk.request(f"{limit} partitions at most", api, about("alpha", "beta", response_partition_limit=limit))
    for topic, partition in (("alpha", 1), ("alpha", 3), ("alpha", 99), ("beta", 0), ("aardvark", 0), ("zebra", 5)):
        cursor = {"topic_name": topic, "partition_index": partition}
        talk.request(f"from {topic}-{partition}", api, about("alpha", "beta", cursor=cursor))
    talk.request("a negative cursor", api, about("alpha", cursor={"topic_name": "alpha", "partition_index": -1}))
    talk.request("the same topic twice", api, about("alpha", "alpha"))


@scenario
def unregister_broker(talk: Conversation) -> None:
    for broker_id in (99, -1, 2**31 - 1):
        talk.request(f"broker {broker_id}, which is not there", Api.UNREGISTER_BROKER, {"broker_id": broker_id})
