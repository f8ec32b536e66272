"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords: valid requests, and the errors of invalid ones."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.record_batches import TestRecord, batch

UNKNOWN_ID = UUID(int=0xFEED)


def _new(
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [{"partition_index": key, "broker_ids": ids} for key, ids in (assignments or {}).items()],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }


def _create(*topics: dict[str, Any], validate_only: bool = False) -> dict[str, Any]:
    return {"topics": list(topics), "timeout": 10_000, "validate_only": validate_only}


@scenario
def create_topics_versions(talk: Conversation) -> None:
    def one(version: int) -> dict[str, Any]:
        name = f"made-v{version}"
        talk.remember_topic(name)
        return _create(_new(name, partitions=2, configs={"retention.ms": "1000"}))

    for version in range(2, 8):
        response = talk.request_quietly(Api.CREATE_TOPICS, one(version), version=version)
        if version == 7:
            talk.names.uuid(response.topics[0].topic_id, "<id of made-v7>")
        talk.write(f"create_topics v{version}: two partitions and a config", response)
        talk.until_partitions(f"made-v{version}", 2)
    talk.request_each_version("a topic that exists", Api.CREATE_TOPICS, _create(_new("made-v7")))
    defaults = _create(_new("by-default", partitions=-1, replicas=-1), validate_only=True)
    talk.request_each_version("defaults, only validated", Api.CREATE_TOPICS, defaults, start=4)
    talk.request_each_version("defaults before they were known", Api.CREATE_TOPICS, defaults)
    talk.request_each_version("no topic", Api.CREATE_TOPICS, _create())


@scenario
def create_topics_refused(talk: Conversation) -> None:
    talk.create_topic("taken.name")
    refused = {
        "no name": _new(""),
        "a dot": _new("."),
        "two dots": _new(".."),
        "a slash": _new("no/slash"),
        "a space": _new("no space"),
        "250 characters": _new("a" * 250),
        "249 characters": _new("a" * 249),
        "a name that collides": _new("taken_name"),
        "the metadata topic": _new("__cluster_metadata"),
        "no partitions": _new("p", partitions=0),
        "minus two partitions": _new("p", partitions=-2),
        "no replicas": _new("p", replicas=0),
        "minus two replicas": _new("p", replicas=-2),
        "two replicas on one broker": _new("p", replicas=2),
        "too many partitions": _new("p", partitions=20_000),
        "an assignment": _new("p", partitions=-1, replicas=-1, assignments={0: [1], 1: [1]}),
        "an assignment and numbers": _new("p", assignments={0: [1]}),
        "an assignment that starts at 1": _new("p", partitions=-1, replicas=-1, assignments={1: [1]}),
        "an assignment with a gap": _new("p", partitions=-1, replicas=-1, assignments={0: [1], 2: [1]}),
        "an assignment to an unknown broker": _new("p", partitions=-1, replicas=-1, assignments={0: [7]}),
        "an assignment to nobody": _new("p", partitions=-1, replicas=-1, assignments={0: []}),
        "an assignment twice to one broker": _new("p", partitions=-1, replicas=-1, assignments={0: [1, 1]}),
        "assignments of unequal size": _new("p", partitions=-1, replicas=-1, assignments={0: [1], 1: [1, 2]}),
        "an unknown config": _new("p", configs={"no.such.config": "1"}),
        "a config of the broker": _new("p", configs={"log.retention.ms": "1"}),
        "a config that is no number": _new("p", configs={"retention.ms": "soon"}),
        "a config out of range": _new("p", configs={"max.message.bytes": "-1"}),
        "a config too large for its type": _new("p", configs={"segment.bytes": "99999999999"}),
        "a small segment": _new("p", configs={"segment.bytes": "1"}),
        "a config without value": _new("p", configs={"retention.ms": None}),
        "an unknown codec": _new("p", configs={"compression.type": "lzma"}),
        "an unknown cleanup policy": _new("p", configs={"cleanup.policy": "shred"}),
        "two cleanup policies": _new("p", configs={"cleanup.policy": "compact,delete"}),
        "an unknown timestamp type": _new("p", configs={"message.timestamp.type": "Later"}),
        "a ratio above one": _new("p", configs={"min.cleanable.dirty.ratio": "1.5"}),
        "a boolean that is none": _new("p", configs={"preallocate": "perhaps"}),
        "lags that cross": _new("p", configs={"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"}),
        "gzip level 99": _new("p", configs={"compression.gzip.level": "99"}),
        "remote storage without the system": _new("p", configs={"remote.storage.enable": "true"}),
        "a throttle list": _new("p", configs={"leader.replication.throttled.replicas": "0:1,1:1"}),
        "a bad throttle list": _new("p", configs={"leader.replication.throttled.replicas": "everything"}),
        "an empty config name": _new("p", configs={"": "1"}),
    }
    for label, topic in refused.items():
        talk.request(label, Api.CREATE_TOPICS, _create(topic, validate_only=True))
    talk.request("one name twice", Api.CREATE_TOPICS, _create(_new("twin"), _new("twin", partitions=3)))
    both = _create(_new("good"), _new("no/good"), validate_only=True)
    talk.request("one good, one bad", Api.CREATE_TOPICS, both)


@scenario
def create_topics_configs_answered(talk: Conversation) -> None:
    talk.remember_topic("configured")
    configs = {"retention.ms": "60000", "cleanup.policy": "compact", "min.insync.replicas": "1"}
    response = talk.request_quietly(Api.CREATE_TOPICS, _create(_new("configured", configs=configs)))
    talk.names.uuid(response.topics[0].topic_id, "<id of configured>")
    talk.write("create_topics v7: the configs in the answer", response)
    talk.until_partitions("configured", 1)


@scenario
def delete_topics(talk: Conversation) -> None:
    for version in range(1, 6):
        name = f"doomed-v{version}"
        talk.create_topic(name)
        fields = {"topic_names": [name, "nowhere"], "timeout": 10_000}
        talk.request("one that is there and one that is not", Api.DELETE_TOPICS, fields, version=version)
        talk.until_gone(name)
    api = Api.DELETE_TOPICS
    by_name = talk.create_topic("doomed-by-name")
    by_id = talk.create_topic("doomed-by-id")

    def delete(*topics: dict[str, Any]) -> dict[str, Any]:
        return {"topics": list(topics), "timeout": 10_000}

    by_that_name, by_that_id = {"name": "doomed-by-name", "topic_id": None}, {"name": None, "topic_id": by_id}
    talk.request("both name and id", api, delete({"name": "doomed-by-name", "topic_id": by_name}))
    talk.request("neither name nor id", api, delete({"name": None, "topic_id": None}))
    talk.request("an unknown id", api, delete({"name": None, "topic_id": UNKNOWN_ID}))
    talk.request("one name twice", api, delete(by_that_name, by_that_name))
    talk.request("one topic by name and by id", api, delete(by_that_name, {"name": None, "topic_id": by_name}))
    talk.request("by name", api, delete(by_that_name))
    talk.until_gone("doomed-by-name")
    talk.request("by name again", api, delete(by_that_name))
    talk.request("by id", api, delete(by_that_id))
    talk.until_gone("doomed-by-id")
    talk.request("by id again", api, delete(by_that_id))
    talk.request("nothing", api, delete())
    talk.request("names that nobody could create", api, delete({"name": "no/slash"}, {"name": ""}))


@scenario
def create_partitions(talk: Conversation) -> None:
    talk.create_topic("grows")
    api = Api.CREATE_PARTITIONS

    def grow(
        count: int, name: str = "grows", assignments: Sequence[Sequence[int]] | None = None, **others: Any
    ) -> dict[str, Any]:
        lists = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
        return {"topics": [{"name": name, "count": count, "assignments": lists}], "timeout": 10_000, **others}

    for count in (1, 0, -1, 100_000):
        talk.request_each_version(f"to {count}", api, grow(count, validate_only=True))
    talk.request("to 4, only validated", api, grow(4, validate_only=True))
    talk.request("a topic that is not there", api, grow(3, "nowhere"))
    talk.request("an illegal name", api, grow(3, "no/slash"))
    talk.request("too few assignments", api, grow(3, assignments=[[1]]))
    talk.request("too many assignments", api, grow(2, assignments=[[1], [1]]))
    talk.request("an unknown broker", api, grow(2, assignments=[[9]]))
    talk.request("a broker twice", api, grow(2, assignments=[[1, 1]]))
    talk.request("another replication factor", api, grow(2, assignments=[[1, 2]]))
    talk.request("an empty assignment", api, grow(2, assignments=[[]]))
    talk.request("no assignments at all", api, grow(2, assignments=[], validate_only=True))
    twice = grow(3)
    talk.request("one topic twice", api, {**twice, "topics": twice["topics"] * 2})
    for version in range(4):
        count = 2 + version
        talk.request(f"to {count}", api, grow(count), version=version)
        talk.until_partitions("grows", count)
    talk.request("with an assignment", api, grow(6, assignments=[[1]]))
    talk.request("nothing", api, {"topics": [], "timeout": 10_000})


@scenario
def delete_records(talk: Conversation) -> None:
    talk.create_topic("cut")
    for _ in range(3):
        talk.produce("cut", batch(TestRecord(b"a"), TestRecord(b"b")))
    api = Api.DELETE_RECORDS

    def deletion(offset: int, topic: str = "cut", partition: int = 0) -> dict[str, Any]:
        partitions = [{"partition_index": partition, "offset": offset}]
        return {"topics": [{"name": topic, "partitions": partitions}], "timeout": 10_000}

    talk.request_each_version("up to 1", api, deletion(1))
    talk.request("up to 3", api, deletion(3))
    talk.request("back to 2", api, deletion(2))
    talk.request("up to 3 again", api, deletion(3))
    talk.request("beyond the end", api, deletion(7))
    talk.request("up to the high watermark", api, deletion(-1))
    talk.request("a negative offset", api, deletion(-2))
    talk.request_each_version("a topic that is not there", api, deletion(0, "nowhere"))
    talk.request("a partition that is not there", api, deletion(0, partition=4))
    talk.request("a negative partition", api, deletion(0, partition=-1))
    talk.request("nothing", api, {"topics": [], "timeout": 10_000})
    talk.create_topic("compacted-only", configs={"cleanup.policy": "compact"})
    talk.create_topic("compacted-and-deleted", configs={"cleanup.policy": "compact,delete"})
    talk.request("a compacted topic", api, deletion(0, "compacted-only"))
    talk.request("a topic compacted and deleted", api, deletion(0, "compacted-and-deleted"))
