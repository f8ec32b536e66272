"""DescribeLogDirs, AlterReplicaLogDirs and UpdateFeatures."""

from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.record_batches import TestRecord, batch

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def _holding(talk: Conversation, topic: str) -> str:
    """The log dir of the topic's first partition; a copy on its way to another dir does not count."""
    results = talk.request_quietly(Api.DESCRIBE_LOG_DIRS, {"topics": [{"topic": topic, "partitions": [0]}]}).results
    return next(
        str(result.log_dir)
        for result in results
        if any(not one.is_future_key for held in result.topics for one in held.partitions)
    )


def _until_held_by(talk: Conversation, topic: str, log_dir: str) -> None:
    talk.until(lambda: _holding(talk, topic) == log_dir)


@scenario
def log_dirs(talk: Conversation) -> None:
    talk.create_topic("stored")
    for _ in range(3):
        talk.produce("stored", batch(TestRecord(b"x" * 1000)))
    first = _holding(talk, "stored")
    (second,) = (str(path) for path in talk.node.log_dirs if str(path) != first)
    talk.names.text(first, "<its dir>")
    talk.names.text(second, "<the other dir>")

    def about(topic: str, *partitions: int) -> dict[str, Any]:
        return {"topics": [{"topic": topic, "partitions": partitions}]}

    def move(path: str, topic: str = "stored", partition: int = 0) -> dict[str, Any]:
        return {"dirs": [{"path": path, "topics": [{"name": topic, "partitions": [partition]}]}]}

    talk.request_each_version("everything", Api.DESCRIBE_LOG_DIRS, {"topics": None})
    talk.request_each_version("one topic", Api.DESCRIBE_LOG_DIRS, about("stored", 0))
    talk.request("a topic that is not there", Api.DESCRIBE_LOG_DIRS, about("nowhere", 0))
    talk.request("a partition that is not there", Api.DESCRIBE_LOG_DIRS, about("stored", 7))
    talk.request("an empty list", Api.DESCRIBE_LOG_DIRS, {"topics": []})
    talk.request("a topic without partitions", Api.DESCRIBE_LOG_DIRS, about("stored"))

    api = Api.ALTER_REPLICA_LOG_DIRS
    talk.request("a topic that is not there", api, move(second, "nowhere"))
    talk.request("a partition that is not there", api, move(second, partition=7))
    talk.request("an unknown dir", api, move("/no/such/dir"))
    talk.request("a relative dir", api, move("data"))
    talk.request("where it is", api, move(first))
    talk.request("nothing", api, {"dirs": []})
    for version, target in ((1, second), (2, first)):
        talk.request("to the other dir", api, move(target), version=version)
        _until_held_by(talk, "stored", target)
        talk.request("and there it is", Api.DESCRIBE_LOG_DIRS, about("stored", 0))


@scenario
def update_features(talk: Conversation) -> None:
    api = Api.UPDATE_FEATURES

    def change(feature: str, level: int, how: int = UPGRADE, **others: Any) -> dict[str, Any]:
        # `allow_downgrade` is what version 0 has in place of the upgrade type.
        update = {"feature": feature, "max_version_level": level, "upgrade_type": how, "allow_downgrade": how > 1}
        return {"timeout": 10_000, "feature_updates": [update], "validate_only": True, **others}

    for label, fields in (
        ("an unknown feature", change("no.such.feature", 1)),
        ("a level too high", change("metadata.version", 99)),
        ("a level too low", change("metadata.version", 1, SAFE_DOWNGRADE)),
        ("the level it has", change("metadata.version", 30)),
        ("a downgrade called an upgrade", change("metadata.version", 29)),
        ("level 0 of the metadata version", change("metadata.version", 0, UNSAFE_DOWNGRADE)),
        ("a negative level", change("metadata.version", -1)),
        ("another feature down", change("transaction.version", 1, SAFE_DOWNGRADE)),
        ("another feature too high", change("transaction.version", 9)),
        ("group.version to 0", change("group.version", 0, SAFE_DOWNGRADE)),
        ("the KRaft version", change("kraft.version", 1)),
        ("an unknown upgrade type", change("group.version", 1, 7)),
    ):
        talk.request_each_version(label, api, fields, start=1)
    plain = change("transaction.version", 2, validate_only=False)
    talk.request_each_version("the level it has, in earnest", api, plain)
    twice = change("group.version", 1)
    talk.request("one feature twice", api, {**twice, "feature_updates": twice["feature_updates"] * 2})
    talk.request("nothing", api, {**twice, "feature_updates": []})
