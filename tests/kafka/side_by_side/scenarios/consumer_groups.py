"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on the wire; other tests compare their effects."""

from typing import Any

from tests.apis import Api, versions
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.kafka.side_by_side.scenarios.groups import until_coordinated

MEMBER = "a-member-of-its-own-making"
GROUP_RESOURCE = 32
SET, DELETE = 0, 1
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
JOINING = {
    "group_id": "consumers",
    "member_id": MEMBER,
    "member_epoch": 0,
    "rebalance_timeout": 30_000,
    "subscribed_topic_names": ["read-by-consumers"],
    "topic_partitions": [],
}


def beat(talk: Conversation, what: str, version: int = 1, **others: Any) -> Any:
    return talk.request(what, Api.CONSUMER_GROUP_HEARTBEAT, {**JOINING, **others}, version=version)


def until_assigned(talk: Conversation) -> None:
    """Kafka's coordinators learn of a new topic later than Metadata responses show it."""
    looking = {**JOINING, "group_id": "looking"}
    talk.until(lambda: bool(talk.request_quietly(Api.CONSUMER_GROUP_HEARTBEAT, looking).assignment.topic_partitions))
    talk.request_quietly(Api.CONSUMER_GROUP_HEARTBEAT, {**looking, "member_epoch": -1})
    talk.request_quietly(Api.DELETE_GROUPS, {"groups_names": ["looking"]})


@scenario
def consumer_group_of_one(talk: Conversation) -> None:
    until_coordinated(talk)
    talk.create_topic("read-by-consumers", partitions=2)
    until_assigned(talk)
    for version in versions(Api.CONSUMER_GROUP_HEARTBEAT):
        group_id = f"consumers-{version}"
        beat(talk, "joins", version, group_id=group_id)
        again = {"group_id": group_id, "member_epoch": 2, "rebalance_timeout": -1}
        beat(talk, "says nothing new", version, **again, subscribed_topic_names=None, topic_partitions=None)
        beat(talk, "comes again without anything", version, group_id=group_id)
        for describing in versions(Api.CONSUMER_GROUP_DESCRIBE):
            request = {"group_ids": [group_id], "include_authorized_operations": True}
            talk.request("the group", Api.CONSUMER_GROUP_DESCRIBE, request, version=describing)
        beat(talk, "leaves", version, **{**again, "member_epoch": -1}, subscribed_topic_names=None)
        talk.request("the group that it has left", Api.CONSUMER_GROUP_DESCRIBE, {"group_ids": [group_id]})
    talk.request("both, by kind", Api.LIST_GROUPS, {"types_filter": ["Consumer"]})
    talk.request("groups that are not there", Api.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["nobody", "", "nobody"]})
    talk.request("none", Api.CONSUMER_GROUP_DESCRIBE, {"group_ids": []})
    talk.request("as a classic group", Api.DESCRIBE_GROUPS, {"groups": ["consumers-1"]})
    talk.request("in the end", Api.DELETE_GROUPS, {"groups_names": ["consumers-0", "consumers-1"]})


@scenario
def consumer_heartbeats_refused(talk: Conversation) -> None:
    until_coordinated(talk)
    for version in versions(Api.CONSUMER_GROUP_HEARTBEAT):
        beat(talk, "of nobody", version, member_id="", member_epoch=1)
        beat(talk, "of no group", version, group_id="")
        beat(talk, "without a timeout", version, rebalance_timeout=-1)
        beat(talk, "with partitions from before", version, topic_partitions=None)
        beat(talk, "that wants nothing", version, subscribed_topic_names=None)
        beat(talk, "in an epoch that cannot be", version, member_epoch=-3)
        beat(talk, "of who leaves for a while, and is not static", version, member_epoch=-2)
        beat(talk, "of a member of a group that is not there", version, member_epoch=4)
        beat(talk, "of who leaves a group that is not there", version, member_epoch=-1)
        beat(talk, "with an assignor that is not there", version, server_assignor="mine")
        beat(talk, "in an empty place", version, rack_id="")
    beat(talk, "without an id", member_id="")
    beat(talk, "with an expression that is none", subscribed_topic_names=None, subscribed_topic_regex="(a")


@scenario
def configs_of_consumer_groups(talk: Conversation) -> None:
    until_coordinated(talk)
    for name, value in (
        ("consumer.session.timeout.ms", "1000"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "50000"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.heartbeat.interval.ms", "x"),
        ("consumer.heartbeat.interval.ms", "6000"),
        ("consumer.assignment.interval.ms", "15001"),
        ("consumer.assignment.interval.ms", "-1"),
        ("nothing.ms", "1"),
    ):
        set_config(talk, name, value)
    set_config(talk, "consumer.heartbeat.interval.ms", "6000", group_id="")
    talk.until(lambda: beat_quietly(talk).heartbeat_interval.total_seconds() == 6)
    beat(talk, "of a group with configs of its own")
    request = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": "consumers",
        "configuration_keys": [HEARTBEAT_INTERVAL],
    }
    talk.request("one of them", Api.DESCRIBE_CONFIGS, {"resources": [request], "include_synonyms": True})
    for name in ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"):
        set_config(talk, name, None)
    talk.until(lambda: beat_quietly(talk).heartbeat_interval.total_seconds() == 5)
    beat(talk, "of who goes", member_epoch=-1)
    talk.request("in the end", Api.DELETE_GROUPS, {"groups_names": ["consumers"]})


def beat_quietly(talk: Conversation) -> Any:
    return talk.request_quietly(Api.CONSUMER_GROUP_HEARTBEAT, JOINING)


def set_config(talk: Conversation, name: str, value: str | None, group_id: str = "consumers") -> None:
    operation = {"name": name, "config_operation": SET if value is not None else DELETE, "value": value}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configs": [operation]}
    request = {"resources": [resource], "validate_only": False}
    talk.request(f"{name} of {group_id or 'all'} to {value}", Api.INCREMENTAL_ALTER_CONFIGS, request)
