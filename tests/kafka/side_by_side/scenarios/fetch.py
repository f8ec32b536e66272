"""Fetch: offsets, sizes, epochs, sessions, ids and isolation."""

from typing import Any
from uuid import UUID

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, fetch_fields, scenario
from tests.record_batches import TestRecord, batch

UNKNOWN_ID = UUID(int=0xFEED)


def _filled(talk: Conversation, name: str, *, partitions: int = 1, batches: int = 5) -> UUID:
    topic_id = talk.create_topic(name, partitions=partitions)
    for partition in range(partitions):
        for number in range(batches):
            records = [TestRecord(b"%d-%d" % (number, index) * 50) for index in range(3)]
            talk.produce(name, batch(*records, timestamp=1_700_000_000_000 + number), partition=partition)
    return topic_id


@scenario
def fetch_versions(talk: Conversation) -> None:
    topic_id = _filled(talk, "fetched")
    fields = fetch_fields("fetched", 0, topic_id=topic_id)
    talk.request_each_version("everything", Api.FETCH, fields)
    talk.request_each_version("read committed", Api.FETCH, {**fields, "isolation_level": 1})
    missing = fetch_fields("nowhere", 0, topic_id=UNKNOWN_ID)
    talk.request_each_version("a topic that is not there", Api.FETCH, missing)
    beyond = fetch_fields("fetched", 0, partition=9, topic_id=topic_id)
    talk.request_each_version("a partition that is not there", Api.FETCH, beyond)


@scenario
def fetch_offsets(talk: Conversation) -> None:
    _filled(talk, "offsets")
    for offset in (0, 1, 2, 3, 14, 15, 16, 1_000_000, -1, -2, -100):
        talk.request(f"offset {offset}", Api.FETCH, fetch_fields("offsets", offset), version=12)
    talk.request_quietly(
        Api.DELETE_RECORDS,
        {"topics": [{"name": "offsets", "partitions": [{"partition_index": 0, "offset": 7}]}], "timeout": 10_000},
    )
    for offset in (0, 6, 7, 8):
        talk.request(f"offset {offset} after deletion up to 7", Api.FETCH, fetch_fields("offsets", offset), version=12)


@scenario
def fetch_sizes(talk: Conversation) -> None:
    topic_id = _filled(talk, "sizes", partitions=2)
    for size in (0, 1, 100, 600, 1100, 1500):
        fields = fetch_fields("sizes", 0, in_partition_max_bytes=size)
        talk.request(f"{size} bytes of the partition", Api.FETCH, fields, version=12)
        talk.request(f"{size} bytes in all", Api.FETCH, fetch_fields("sizes", 0, max_bytes=size), version=12)
    for size in (0, 1, 600, 3000):
        fields = _two_partitions(fetch_fields("sizes", 0, max_bytes=size))
        talk.request(f"two partitions, {size} bytes in all", Api.FETCH, fields, version=12)
    for max_bytes in (-1, -1000):
        talk.request(f"{max_bytes} bytes in all", Api.FETCH, fetch_fields("sizes", 0, max_bytes=max_bytes), version=12)
        fields = fetch_fields("sizes", 0, in_partition_max_bytes=max_bytes)
        talk.request(f"{max_bytes} bytes of the partition", Api.FETCH, fields, version=12)
    fields = fetch_fields("sizes", 15, max_wait=200, min_bytes=1 << 20)
    talk.request("waiting at the end in vain", Api.FETCH, fields, version=12)
    fields = fetch_fields("sizes", 0, max_wait=200, min_bytes=1 << 20)
    talk.request("waiting for more than there is", Api.FETCH, fields, version=12)
    talk.request("no wait", Api.FETCH, fetch_fields("sizes", 15, max_wait=0, min_bytes=100), version=12)
    fields = fetch_fields("sizes", 0, topic_id=topic_id)
    talk.request("the same partition twice", Api.FETCH, _two_partitions(fields, second=0))


def _two_partitions(fields: dict[str, Any], second: int = 1) -> dict[str, Any]:
    topic = fields["topics"][0]
    topic["partitions"].append({**topic["partitions"][0], "partition": second})
    return fields


@scenario
def fetch_epochs(talk: Conversation) -> None:
    _filled(talk, "epochs")
    for version in (9, 12):
        for epoch in (-1, 0, 1, 100, -2):
            fields = fetch_fields("epochs", 0, in_current_leader_epoch=epoch, in_partition_max_bytes=1)
            talk.request(f"current leader epoch {epoch}", Api.FETCH, fields, version=version)
    for epoch in (0, 1, 5):
        for offset in (3, 15, 40):
            fields = fetch_fields("epochs", offset, in_last_fetched_epoch=epoch, in_partition_max_bytes=1)
            talk.request(f"last fetched epoch {epoch} at offset {offset}", Api.FETCH, fields, version=12)


@scenario
def fetch_sessions(talk: Conversation) -> None:
    topic_id = _filled(talk, "session", partitions=2)
    for version in (7, 12, 13, 18):
        fields = fetch_fields("session", 15, topic_id=topic_id, session_epoch=0, max_wait=0)
        first = talk.request("a new session", Api.FETCH, _two_partitions(fields), version=version)

        def later(epoch: int, session_id: int = first.session_id, **others: Any) -> dict[str, Any]:
            fields: dict[str, Any] = {"session_id": session_id, "session_epoch": epoch, "max_wait": 0}
            return {**fetch_fields("session", **fields), "topics": [], **others}

        talk.request("nothing new", Api.FETCH, later(1), version=version)
        changed = fetch_fields("session", 12, topic_id=topic_id)["topics"]
        talk.request("an earlier offset for one partition", Api.FETCH, later(2, topics=changed), version=version)
        talk.request("the same again", Api.FETCH, later(3), version=version)
        forgotten = [{"topic": "session", "topic_id": topic_id, "partitions": [0]}]
        talk.request("one partition forgotten", Api.FETCH, later(4, forgotten_topics_data=forgotten), version=version)
        talk.request("an epoch that was used", Api.FETCH, later(4), version=version)
        talk.request("an epoch too far", Api.FETCH, later(9), version=version)
        talk.request("a session nobody opened", Api.FETCH, later(1, session_id=123_456), version=version)
        unknown = fetch_fields("nowhere", 0, topic_id=UNKNOWN_ID)["topics"]
        talk.request("an unknown topic joins", Api.FETCH, later(5, topics=unknown), version=version)
        talk.request("and stays unknown", Api.FETCH, later(6), version=version)
        talk.request("the session closed", Api.FETCH, later(-1), version=version)
        talk.request("and used again", Api.FETCH, later(7), version=version)


@scenario
def fetch_sessions_see_changes(talk: Conversation) -> None:
    """A partition appears in an incremental response only if it changed."""
    topic_id = _filled(talk, "watched")
    fields = fetch_fields("watched", 15, topic_id=topic_id, session_epoch=0, max_wait=0)
    first = talk.request("a new session at the end", Api.FETCH, fields)
    later = {**fields, "session_id": first.session_id, "topics": []}
    talk.request("nothing new", Api.FETCH, {**later, "session_epoch": 1})
    talk.produce("watched", batch(TestRecord(b"new")))
    talk.request("one more record", Api.FETCH, {**later, "session_epoch": 2})
    moved = fetch_fields("watched", 16, topic_id=topic_id)["topics"]
    talk.request("past it", Api.FETCH, {**later, "session_epoch": 3, "topics": moved})
    deleted = {"name": "watched", "partitions": [{"partition_index": 0, "offset": 5}]}
    talk.request_quietly(Api.DELETE_RECORDS, {"topics": [deleted], "timeout": 10_000})
    talk.request("the log start moved", Api.FETCH, {**later, "session_epoch": 4})
    talk.request("nothing new again", Api.FETCH, {**later, "session_epoch": 5})


@scenario
def fetch_odd_requests(talk: Conversation) -> None:
    topic_id = _filled(talk, "odd")
    plain = fetch_fields("odd", 0, topic_id=topic_id)
    talk.request("no topic", Api.FETCH, {**plain, "topics": []})
    talk.request("an id of zero", Api.FETCH, fetch_fields("odd", 0))
    talk.request("a negative partition", Api.FETCH, fetch_fields("odd", 0, partition=-1), version=12)
    talk.request("an illegal topic name", Api.FETCH, fetch_fields("no/slash", 0), version=12)
    talk.request("isolation level 9", Api.FETCH, {**plain, "isolation_level": 9})
    talk.request("a rack", Api.FETCH, {**plain, "rack_id": "somewhere"})
    talk.request("a replica that is none", Api.FETCH, fetch_fields("odd", 0, replica_id=7), version=12)
    talk.request("a replica that is none", Api.FETCH, {**plain, "replica_state": {"replica_id": 7, "replica_epoch": 1}})
    talk.request("another cluster's id", Api.FETCH, {**plain, "cluster_id": "another"})
    for replica_id in (-2, -3):
        talk.request(f"replica {replica_id}", Api.FETCH, fetch_fields("odd", 0, replica_id=replica_id), version=12)
