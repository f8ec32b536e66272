"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from collections.abc import Sequence
from typing import Any

from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario
from tests.node_process import NODE_ID

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
BROKER_NAME = str(NODE_ID)


def _describe(kind: int, name: str, keys: Sequence[str] | None = None, **others: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}], **others}


def _alter(kind: int, name: str, configs: dict[str, str | None], **others: Any) -> dict[str, Any]:
    entries = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    return {"resources": [resource], "validate_only": False, **others}


def _change(kind: int, name: str, *changes: tuple[str, int, str | None], **others: Any) -> dict[str, Any]:
    entries = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    return {"resources": [resource], "validate_only": False, **others}


def _until_config(talk: Conversation, kind: int, name: str, key: str, value: str) -> None:
    def seen() -> bool:
        response = talk.request_quietly(Api.DESCRIBE_CONFIGS, _describe(kind, name, [key]))
        return bool(response.results[0].configs[0].value == value)

    talk.until(seen)


@scenario
def describe_topic_configs(talk: Conversation) -> None:
    talk.create_topic("configured", configs={"retention.ms": "60000", "cleanup.policy": "compact,delete"})
    talk.request_each_version("every config", Api.DESCRIBE_CONFIGS, _describe(TOPIC, "configured"))
    keys = ["retention.ms", "segment.bytes", "no.such.config", "log.retention.ms"]
    talk.request_each_version("some configs", Api.DESCRIBE_CONFIGS, _describe(TOPIC, "configured", keys))
    talk.request("no config", Api.DESCRIBE_CONFIGS, _describe(TOPIC, "configured", []))
    talk.request("with synonyms", Api.DESCRIBE_CONFIGS, _describe(TOPIC, "configured", include_synonyms=True))
    documented = _describe(TOPIC, "configured", ["retention.ms"], include_documentation=True)
    talk.request("with documentation", Api.DESCRIBE_CONFIGS, documented)


@scenario
def describe_broker_configs(talk: Conversation) -> None:
    """Every config a broker has: value, source, type, and whether it can be changed."""
    talk.request("every config", Api.DESCRIBE_CONFIGS, _describe(BROKER, BROKER_NAME, include_synonyms=True))
    talk.request("the default of the cluster", Api.DESCRIBE_CONFIGS, _describe(BROKER, ""))
    keys = ["log.retention.hours", "log.retention.ms", "node.id", "no.such.config"]
    talk.request_each_version("some configs", Api.DESCRIBE_CONFIGS, _describe(BROKER, BROKER_NAME, keys))


@scenario
def describe_configs_refused(talk: Conversation) -> None:
    for label, kind, name in (
        ("a topic that is not there", TOPIC, "nowhere"),
        ("an illegal topic name", TOPIC, "no/slash"),
        ("an empty topic name", TOPIC, ""),
        ("another broker", BROKER, "7"),
        ("a broker that is no number", BROKER, "first"),
        ("loggers of another broker", LOGGER, "7"),
        ("loggers of no broker", LOGGER, ""),
        ("a group", GROUP, "some-group"),
        ("a group without name", GROUP, ""),
        ("client metrics", CLIENT_METRICS, "some-metrics"),
        ("client metrics without name", CLIENT_METRICS, ""),
        ("kind 0", 0, "anything"),
        ("kind 3", 3, "anything"),
    ):
        talk.request(label, Api.DESCRIBE_CONFIGS, _describe(kind, name))
    talk.request("nothing", Api.DESCRIBE_CONFIGS, {"resources": []})


@scenario
def alter_configs(talk: Conversation) -> None:
    talk.create_topic("altered", configs={"retention.ms": "60000"})
    api = Api.ALTER_CONFIGS
    for version in range(3):
        value = str(1000 + version)
        talk.request("another config", api, _alter(TOPIC, "altered", {"max.message.bytes": value}), version=version)
        _until_config(talk, TOPIC, "altered", "max.message.bytes", value)
    keys = ["retention.ms", "max.message.bytes"]
    talk.request("the rest went back to defaults", Api.DESCRIBE_CONFIGS, _describe(TOPIC, "altered", keys))
    talk.request("only validated", api, _alter(TOPIC, "altered", {"retention.ms": "5"}, validate_only=True))
    talk.request("validated and refused", api, _alter(TOPIC, "altered", {"retention.ms": "x"}, validate_only=True))
    talk.request("a topic that is not there", api, _alter(TOPIC, "nowhere", {"retention.ms": "5"}))
    talk.request("an unknown config", api, _alter(TOPIC, "altered", {"no.such.config": "5"}))
    talk.request("no value", api, _alter(TOPIC, "altered", {"retention.ms": None}))
    talk.request("another broker", api, _alter(BROKER, "7", {"log.retention.ms": "5"}, validate_only=True))
    talk.request("a read-only broker config", api, _alter(BROKER, BROKER_NAME, {"node.id": "7"}))
    talk.request("kind 3", api, _alter(3, "anything", {"a": "b"}))
    talk.request("a logger", api, _alter(LOGGER, BROKER_NAME, {"no.such.logger": "INFO"}))
    talk.request("nothing", api, {"resources": []})


@scenario
def incremental_alter_topic_configs(talk: Conversation) -> None:
    talk.create_topic("changed", configs={"retention.ms": "60000"})
    api = Api.INCREMENTAL_ALTER_CONFIGS
    for version in (0, 1):
        value = str(2000 + version)
        fields = _change(TOPIC, "changed", ("max.message.bytes", SET, value))
        talk.request("set", api, fields, version=version)
        _until_config(talk, TOPIC, "changed", "max.message.bytes", value)
    for label, *changes in (
        ("append to a list", ("cleanup.policy", APPEND, "compact")),
        ("append what is there", ("cleanup.policy", APPEND, "delete")),
        ("subtract from a list", ("cleanup.policy", SUBTRACT, "delete")),
        ("delete", ("retention.ms", DELETE, None)),
        ("delete what is not set", ("segment.ms", DELETE, None)),
        ("delete with a value", ("segment.ms", DELETE, "7")),
        ("append to a number", ("retention.ms", APPEND, "5")),
        ("subtract from a number", ("retention.ms", SUBTRACT, "5")),
        ("set without value", ("retention.ms", SET, None)),
        ("append without value", ("cleanup.policy", APPEND, None)),
        ("operation 9", ("retention.ms", 9, "5")),
        ("an unknown config", ("no.such.config", SET, "5")),
        ("delete an unknown config", ("no.such.config", DELETE, None)),
        ("a config that is no number", ("retention.ms", SET, "soon")),
        ("a number below its range", ("retention.ms", SET, "-2")),
        ("a config set twice", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
        ("one good and one bad", ("retention.ms", SET, "5"), ("segment.ms", SET, "x")),
        ("lags that cross", ("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "10")),
        ("an empty cleanup policy", ("cleanup.policy", SET, "")),
        ("spaces around a number", ("retention.ms", SET, " 77 ")),
        ("min.insync.replicas of zero", ("min.insync.replicas", SET, "0")),
        ("remote storage without the system", ("remote.storage.enable", SET, "true")),
    ):
        fields = _change(TOPIC, "changed", *changes, validate_only=True)
        talk.request(f"{label}, only validated", api, fields)
    talk.request("no change", api, _change(TOPIC, "changed"))
    talk.request("a topic that is not there", api, _change(TOPIC, "nowhere", ("retention.ms", SET, "5")))
    talk.request("an illegal topic name", api, _change(TOPIC, "no/slash", ("retention.ms", SET, "5")))
    talk.request("an empty topic name", api, _change(TOPIC, "", ("retention.ms", SET, "5")))
    twice = _change(TOPIC, "changed", ("retention.ms", SET, "5"))
    talk.request("one resource twice", api, {**twice, "resources": twice["resources"] * 2})


@scenario
def incremental_alter_broker_configs(talk: Conversation) -> None:
    api = Api.INCREMENTAL_ALTER_CONFIGS
    for name in (BROKER_NAME, ""):
        where = f"broker {name!r}"
        for label, change in (
            ("a number", ("log.retention.ms", SET, "123456789")),
            ("a read-only config", ("node.id", SET, "7")),
            ("an unknown config", ("no.such.config", SET, "7")),
            ("out of range", ("num.io.threads", SET, "0")),
            ("far more threads", ("num.io.threads", SET, "1000")),
            ("no number", ("log.retention.ms", SET, "soon")),
            ("min.insync.replicas", ("min.insync.replicas", SET, "2")),
            ("a listener", ("listeners", SET, "PLAINTEXT://127.0.0.1:1")),
            ("unclean elections", ("unclean.leader.election.enable", SET, "true")),
            ("message.max.bytes", ("message.max.bytes", SET, "2000000")),
        ):
            fields = _change(BROKER, name, change, validate_only=True)
            talk.request(f"{label}, {where}, only validated", api, fields)
    talk.request("another broker", api, _change(BROKER, "7", ("log.retention.ms", SET, "5"), validate_only=True))
    talk.request("a broker that is no number", api, _change(BROKER, "first", ("log.retention.ms", SET, "5")))
    talk.request("kind 3", api, _change(3, "anything", ("a", SET, "b")))
    for label, name in (("an unknown logger", BROKER_NAME), ("another's", "7"), ("that of no broker", "first")):
        talk.request(label, api, _change(LOGGER, name, ("no.such.logger", SET, "INFO")))
    talk.request("nothing", api, {"resources": []})


@scenario
def broker_configs_by_level(talk: Conversation) -> None:
    """A cluster default, then the broker's own value, then both gone: the sources and synonyms in between."""
    talk.create_topic("levels")
    key, topic_key = "log.segment.bytes", "segment.bytes"
    api = Api.INCREMENTAL_ALTER_CONFIGS

    def look(label: str) -> None:
        for kind, name, wanted in ((BROKER, BROKER_NAME, key), (BROKER, "", key), (TOPIC, "levels", topic_key)):
            fields = _describe(kind, name, [wanted], include_synonyms=True)
            talk.request(f"{label}: kind {kind} {name!r}", Api.DESCRIBE_CONFIGS, fields)

    try:
        talk.request("set for the cluster", api, _change(BROKER, "", (key, SET, "50000000")))
        _until_config(talk, BROKER, BROKER_NAME, key, "50000000")
        look("cluster default")
        talk.request("set for the broker", api, _change(BROKER, BROKER_NAME, (key, SET, "60000000")))
        _until_config(talk, BROKER, BROKER_NAME, key, "60000000")
        look("broker's own")
        talk.request("set for the topic", api, _change(TOPIC, "levels", (topic_key, SET, "70000000")))
        _until_config(talk, TOPIC, "levels", topic_key, "70000000")
        look("topic's own")
    finally:
        for name in (BROKER_NAME, ""):
            talk.request_quietly(api, _change(BROKER, name, (key, DELETE, None)))
    _until_config(talk, BROKER, BROKER_NAME, key, "1073741824")
    look("deleted again")


@scenario
def list_config_resources(talk: Conversation) -> None:
    talk.create_topic("listed")
    api = Api.LIST_CONFIG_RESOURCES
    talk.request_each_version("everything", api, {"resource_types": []})
    for kind in (TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP, 0, 3, 99):
        talk.request(f"kind {kind}", api, {"resource_types": [kind]})
    talk.request("topics and brokers", api, {"resource_types": [TOPIC, BROKER]})
