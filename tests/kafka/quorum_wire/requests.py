"""Requests to Kafka's controllers, most of which they reject. None of them changes the quorum."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from odradek.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID

VOTE, BEGIN, END, DESCRIBE, FETCH, FETCH_SNAPSHOT, ADD, REMOVE, UPDATE = 52, 53, 54, 55, 1, 59, 80, 81, 82
NAMES = {
    VOTE: "vote",
    BEGIN: "begin_quorum_epoch",
    END: "end_quorum_epoch",
    DESCRIBE: "describe_quorum",
    FETCH: "fetch",
    FETCH_SNAPSHOT: "fetch_snapshot",
    ADD: "add_raft_voter",
    REMOVE: "remove_raft_voter",
    UPDATE: "update_raft_voter",
}
OBSERVER = 77
OBSERVER_DIRECTORY = UUID(int=0x77 << 120)
ELSEWHERE = [{"name": "CONTROLLER", "host": "elsewhere.example", "port": 9093}]


@dataclass(frozen=True, slots=True)
class Request:
    api_key: int
    version: int
    title: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quorum:
    """The state of the quorum that requests refer to."""

    cluster_id: str
    leader_id: int
    leader_directory_id: UUID
    epoch: int
    end_offset: int
    snapshot: tuple[int, int] | None
    """End offset and epoch of one that the leader has."""


def all_requests(quorum: Quorum) -> Iterator[Request]:
    yield from _elections(quorum)
    yield from _fetches(quorum)
    yield from _snapshots(quorum)
    yield from _voters(quorum)
    yield from _descriptions()


def _topics(partition: Mapping[str, Any], name: str = METADATA_TOPIC, index: int = 0) -> list[dict[str, Any]]:
    return [{"topic_name": name, "partitions": [{"partition_index": index, **partition}]}]


def _wrong_topics(partition: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    right = _topics(partition)
    yield "no topic", []
    yield "no partition", [{"topic_name": METADATA_TOPIC, "partitions": []}]
    yield "another topic", _topics(partition, "other")
    yield "another partition", _topics(partition, index=1)
    yield "two topics", right + _topics(partition, "other")
    yield "two partitions", [{"topic_name": METADATA_TOPIC, "partitions": right[0]["partitions"] * 2}]


def _elections(quorum: Quorum) -> Iterator[Request]:
    vote = {
        "replica_id": OBSERVER,
        "replica_directory_id": OBSERVER_DIRECTORY,
        "voter_directory_id": quorum.leader_directory_id,
        "last_offset": 1 << 40,
    }
    stale = {"replica_epoch": 1, "last_offset_epoch": 0}
    current = {"replica_epoch": quorum.epoch, "last_offset_epoch": quorum.epoch}
    for version in (0, 1, 2):
        yield Request(VOTE, version, "an epoch of the past", _of(quorum, _topics(vote | stale)))
        yield Request(VOTE, version, "a vote in the epoch of the last record", _of(quorum, _topics(vote | current)))
        for title, topics in _wrong_topics(vote | stale):
            yield Request(VOTE, version, title, _of(quorum, topics))
        yield Request(VOTE, version, "another cluster", {"cluster_id": "other", "topics": _topics(vote | stale)})
        yield Request(VOTE, version, "no cluster", {"cluster_id": None, "topics": _topics(vote | stale)})
    yield Request(VOTE, 2, "a pre-vote", _of(quorum, _topics(vote | current | {"pre_vote": True})))
    yield Request(
        VOTE,
        2,
        "a pre-vote of a short log",
        _of(quorum, _topics(vote | current | {"pre_vote": True, "last_offset": 0})),
    )
    for api_key in (BEGIN, END):
        past = {"leader_id": OBSERVER, "leader_epoch": 1, "voter_directory_id": quorum.leader_directory_id}
        for version in (0, 1):
            fields = _of(quorum, _topics(past)) | {"leader_endpoints": ELSEWHERE}
            yield Request(api_key, version, "an epoch of the past", fields)
            yield Request(
                api_key, version, "a negative epoch", fields | {"topics": _topics(past | {"leader_epoch": -1})}
            )
            yield Request(api_key, version, "another cluster", fields | {"cluster_id": "other"})
            for title, topics in _wrong_topics(past):
                yield Request(api_key, version, title, fields | {"topics": topics})


def _of(quorum: Quorum, topics: list[dict[str, Any]]) -> dict[str, Any]:
    return {"cluster_id": quorum.cluster_id, "voter_id": quorum.leader_id, "topics": topics}


def _fetches(quorum: Quorum) -> Iterator[Request]:
    def fetch(partition: Mapping[str, Any] = {}, **fields: Any) -> dict[str, Any]:
        return {
            "cluster_id": quorum.cluster_id,
            "replica_id": OBSERVER,
            "replica_state": {"replica_id": OBSERVER, "replica_epoch": -1},
            "max_wait": 0,
            "max_bytes": 200,
            "topics": [topic(partition)],
        } | fields

    def topic(
        partition: Mapping[str, Any], topic_id: UUID | None = METADATA_TOPIC_ID, name: str = METADATA_TOPIC
    ) -> dict[str, Any]:
        return {"topic": name, "topic_id": topic_id, "partitions": [whole(partition)]}

    def whole(partition: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "partition": 0,
            "current_leader_epoch": quorum.epoch,
            "fetch_offset": quorum.end_offset - 1,
            "last_fetched_epoch": quorum.epoch,
            "replica_directory_id": OBSERVER_DIRECTORY,
        } | dict(partition)

    for version in range(4, 19):
        yield Request(FETCH, version, "the end of the log", fetch())
        yield Request(FETCH, version, "no topic", fetch(topics=[]))
    for version in range(12, 19):
        yield Request(FETCH, version, "another topic", fetch(topics=[topic({}, UUID(int=5 << 100), "other")]))
        yield Request(FETCH, version, "no topic id", fetch(topics=[topic({}, None)]))
        yield Request(FETCH, version, "another cluster", fetch(cluster_id="other"))
        yield Request(FETCH, version, "no cluster", fetch(cluster_id=None))
    for version in (13, 17, 18):
        yield Request(FETCH, version, "another partition", fetch({"partition": 1}))
        yield Request(FETCH, version, "no partition", fetch(topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": []}]))
        yield Request(FETCH, version, "two topics", fetch(topics=[topic({}), topic({}, UUID(int=5 << 100), "other")]))
        yield Request(
            FETCH,
            version,
            "two partitions",
            fetch(topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [whole({}), whole({})]}]),
        )
        yield Request(
            FETCH, version, "an epoch of the past", fetch({"current_leader_epoch": 1, "last_fetched_epoch": 1})
        )
        yield Request(FETCH, version, "an epoch of the future", fetch({"current_leader_epoch": 1 << 20}))
        yield Request(FETCH, version, "a negative offset", fetch({"fetch_offset": -1}))
        yield Request(FETCH, version, "a negative last epoch", fetch({"last_fetched_epoch": -1}))
        yield Request(FETCH, version, "a negative wait", fetch(max_wait=-1))
        yield Request(FETCH, version, "a log that went another way", fetch({"fetch_offset": 1 << 40}))
        yield Request(FETCH, version, "what is in a snapshot only", fetch({"fetch_offset": 0, "last_fetched_epoch": 0}))
        yield Request(FETCH, version, "nothing new", fetch({"fetch_offset": quorum.end_offset}))


def _snapshots(quorum: Quorum) -> Iterator[Request]:
    end_offset, epoch = quorum.snapshot or (0, 0)

    def snapshot(partition: Mapping[str, Any] = {}, name: str = METADATA_TOPIC, **fields: Any) -> dict[str, Any]:
        whole = {
            "current_leader_epoch": quorum.epoch,
            "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
            "replica_directory_id": OBSERVER_DIRECTORY,
        }
        return {
            "cluster_id": quorum.cluster_id,
            "replica_id": OBSERVER,
            "max_bytes": 100,
            "topics": [{"name": name, "partitions": [whole | dict(partition)]}],
        } | fields

    for version in (0, 1):
        yield Request(FETCH_SNAPSHOT, version, "a piece", snapshot({"position": 50}))
        yield Request(FETCH_SNAPSHOT, version, "behind its end", snapshot({"position": 1 << 30}))
        yield Request(FETCH_SNAPSHOT, version, "before its beginning", snapshot({"position": -1}))
        yield Request(
            FETCH_SNAPSHOT, version, "an unknown one", snapshot({"snapshot_id": {"end_offset": 1 << 40, "epoch": 1}})
        )
        yield Request(FETCH_SNAPSHOT, version, "an epoch of the past", snapshot({"current_leader_epoch": 0}))
        yield Request(FETCH_SNAPSHOT, version, "an epoch of the future", snapshot({"current_leader_epoch": 1 << 20}))
        yield Request(FETCH_SNAPSHOT, version, "another topic", snapshot(name="other"))
        yield Request(FETCH_SNAPSHOT, version, "another partition", snapshot({"partition": 1}))
        yield Request(FETCH_SNAPSHOT, version, "another cluster", snapshot(cluster_id="other"))


def _voters(quorum: Quorum) -> Iterator[Request]:
    observer = {"cluster_id": quorum.cluster_id, "voter_id": OBSERVER, "voter_directory_id": OBSERVER_DIRECTORY}
    present = {"voter_id": quorum.leader_id, "voter_directory_id": quorum.leader_directory_id}
    for version in (0, 1):
        add = observer | {"timeout": 2000, "listeners": ELSEWHERE}
        yield Request(ADD, version, "a voter already", add | present)
        yield Request(ADD, version, "no listener", add | {"listeners": []})
        yield Request(ADD, version, "a negative id", add | {"voter_id": -1})
        yield Request(ADD, version, "no directory", add | {"voter_directory_id": None})
        yield Request(ADD, version, "another cluster", add | {"cluster_id": "other"})
    yield Request(REMOVE, 0, "no voter", observer)
    yield Request(REMOVE, 0, "a voter with another directory", observer | {"voter_id": quorum.leader_id})
    yield Request(REMOVE, 0, "a negative id", observer | {"voter_id": -1})
    yield Request(REMOVE, 0, "another cluster", observer | {"cluster_id": "other"})
    update = observer | {
        "current_leader_epoch": quorum.epoch,
        "listeners": ELSEWHERE,
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
    yield Request(UPDATE, 0, "no voter", update)
    yield Request(UPDATE, 0, "an epoch of the past", update | {"current_leader_epoch": 0})
    yield Request(UPDATE, 0, "an epoch of the future", update | {"current_leader_epoch": 1 << 20})
    yield Request(UPDATE, 0, "no listener", update | {"listeners": []})
    yield Request(UPDATE, 0, "no directory", update | {"voter_directory_id": None})
    versions = {"min_supported_version": 2, "max_supported_version": 1}
    yield Request(UPDATE, 0, "no range of versions", update | {"k_raft_version_feature": versions})
    yield Request(UPDATE, 0, "another cluster", update | {"cluster_id": "other"})


def _descriptions() -> Iterator[Request]:
    for version in (0, 1, 2):
        yield Request(DESCRIBE, version, "the quorum", {"topics": _topics({})})
        for title, topics in _wrong_topics({}):
            yield Request(DESCRIBE, version, title, {"topics": topics})
