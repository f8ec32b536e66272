"""ListOffsets and OffsetForLeaderEpoch."""

from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.record_batches import GZIP, TestRecord, batch

START_MS = 1_700_000_000_000
SPECIAL_TIMESTAMPS = {
    "latest": -1,
    "earliest": -2,
    "max timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest pending upload": -6,
    "minus seven": -7,
    "minus one hundred": -100,
}


def _about(timestamp: int, topic: str = "listed", partition: int = 0, epoch: int = -1, **others: Any) -> dict[str, Any]:
    partitions = [{"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}]
    topics = [{"name": topic, "partitions": partitions}]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 10_000, **others}


def _filled(talk: Conversation, name: str, codec: int = 0) -> None:
    """Timestamps go up and down, inside batches and between them."""
    talk.create_topic(name)
    for start, deltas in ((0, (0, 10, 5)), (100, (0, 50, 0)), (50, (0, 0, 0)), (120, (0, 30, 30))):
        records = [TestRecord(b"v", timestamp_delta=delta) for delta in deltas]
        talk.produce(name, batch(*records, timestamp=START_MS + start, codec=codec))


@scenario
def list_offsets(talk: Conversation) -> None:
    _filled(talk, "listed")
    for label, timestamp in SPECIAL_TIMESTAMPS.items():
        talk.request_each_version(label, Api.LIST_OFFSETS, _about(timestamp))
    talk.request_each_version("by time", Api.LIST_OFFSETS, _about(START_MS + 7))


@scenario
def list_offsets_by_time(talk: Conversation) -> None:
    _filled(talk, "plain")
    _filled(talk, "squeezed", codec=GZIP)
    for topic in ("plain", "squeezed"):
        for delta in (-1, 0, 1, 5, 6, 10, 11, 49, 100, 120, 149, 150, 151):
            talk.request(f"{delta} ms into {topic}", Api.LIST_OFFSETS, _about(START_MS + delta, topic))
        talk.request(f"max timestamp of {topic}", Api.LIST_OFFSETS, _about(-3, topic))
    deleted = {"name": "plain", "partitions": [{"partition_index": 0, "offset": 4}]}
    talk.request_quietly(Api.DELETE_RECORDS, {"topics": [deleted], "timeout": 10_000})
    for delta in (0, 100, 151):
        talk.request(f"{delta} ms, first four deleted", Api.LIST_OFFSETS, _about(START_MS + delta, "plain"))
    for label, timestamp in SPECIAL_TIMESTAMPS.items():
        talk.request(f"{label}, first four deleted", Api.LIST_OFFSETS, _about(timestamp, "plain"))


@scenario
def list_offsets_of_nothing(talk: Conversation) -> None:
    talk.create_topic("empty")
    for label, timestamp in {**SPECIAL_TIMESTAMPS, "by time": START_MS, "time zero": 0}.items():
        talk.request(f"{label} of an empty partition", Api.LIST_OFFSETS, _about(timestamp, "empty"))
    for version in (1, 4, 7, 11):
        talk.request("a topic that is not there", Api.LIST_OFFSETS, _about(-1, "nowhere"), version=version)
        talk.request("a partition that is not there", Api.LIST_OFFSETS, _about(-1, "empty", 5), version=version)
    talk.request("a negative partition", Api.LIST_OFFSETS, _about(-1, "empty", -1))
    talk.request("an illegal topic name", Api.LIST_OFFSETS, _about(-1, "no/slash"))
    talk.request("no topic", Api.LIST_OFFSETS, {**_about(-1), "topics": []})


@scenario
def list_offsets_odd_requests(talk: Conversation) -> None:
    _filled(talk, "odd")
    for epoch in (0, 1, 9, -2):
        talk.request(f"current leader epoch {epoch}", Api.LIST_OFFSETS, _about(-1, "odd", epoch=epoch))
    for level in (1, 9):
        talk.request(f"isolation level {level}", Api.LIST_OFFSETS, _about(-1, "odd", isolation_level=level))
    for replica_id in (-2, -3, 1, 7):
        talk.request(f"replica {replica_id}", Api.LIST_OFFSETS, _about(-1, "odd", replica_id=replica_id))
    twice = _about(-1, "odd")
    twice["topics"][0]["partitions"].append({**twice["topics"][0]["partitions"][0], "timestamp": -2})
    talk.request("one partition twice", Api.LIST_OFFSETS, twice)


@scenario
def offset_for_leader_epoch(talk: Conversation) -> None:
    _filled(talk, "epochs")
    api = Api.OFFSET_FOR_LEADER_EPOCH

    def about(epoch: int, current: int = -1, topic: str = "epochs", partition: int = 0) -> dict[str, Any]:
        partitions = [{"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]
        return {"replica_id": -1, "topics": [{"topic": topic, "partitions": partitions}]}

    for epoch in (0, 1, 50, -1, -2):
        talk.request_each_version(f"epoch {epoch}", api, about(epoch))
    for current in (0, 1, 9):
        talk.request(f"current leader epoch {current}", api, about(0, current))
    talk.request_each_version("a topic that is not there", api, about(0, topic="nowhere"))
    talk.request("a partition that is not there", api, about(0, partition=7))
    talk.request("no topic", api, {"replica_id": -1, "topics": []})
    talk.request("a replica that is none", api, {**about(0), "replica_id": 7})
    talk.create_topic("empty-epochs")
    for epoch in (0, 1):
        talk.request(f"epoch {epoch} of an empty partition", api, about(epoch, topic="empty-epochs"))
