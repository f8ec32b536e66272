"""One node's configuration, from its file."""

import json
from pathlib import Path

import pytest

from odradek.config.dynamic import overlay
from odradek.config.levels import ConfigSource, describe_broker
from odradek.config.listeners import Address, Listener, Voter
from odradek.config.node_config import ConfigErrors, NodeConfig
from odradek.config.values import ConfigType

MINIMAL = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
"""
STARTED = json.loads((Path(__file__).parent / "recorded" / "started.json").read_text())


def load(text: str = "", **overrides: str) -> NodeConfig:
    return NodeConfig.load(MINIMAL + text, "server.properties", overrides)


def errors_of(text: str, overrides: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        NodeConfig.load(text, "server.properties", overrides or {})
    return list(caught.value.errors)


def test_minimal_config() -> None:
    config = load()
    assert config.node_id == 1
    assert config.is_broker
    assert config.is_controller
    client, controller = config.listeners
    assert client == Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092)
    assert config.broker_listeners == config.advertised_listeners == (client,)
    assert config.controller_listeners == config.advertised_controller_listeners == (controller,)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.controller_quorum_voters == (Voter(1, "localhost", 9093),)
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.metadata_log_dir == "/tmp/kafka-logs"
    assert config.num_partitions == 1
    assert config.socket_request_max_bytes == 104857600
    assert config.broker_rack is None
    assert config.warnings == ()


def test_kafka_default_file_is_accepted_with_warnings() -> None:
    config = NodeConfig.load(
        """\
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        socket.receive.buffer.bytes=102400
        socket.request.max.bytes=104857600
        log.dirs=/var/lib/one, /var/lib/two
        num.partitions=1
        num.recovery.threads.per.data.dir=2
        offsets.topic.replication.factor=1
        share.coordinator.state.topic.replication.factor=1
        share.coordinator.state.topic.min.isr=1
        transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000
        """,
        "server.properties",
    )
    assert config.controller_quorum_bootstrap_servers == (Address("localhost", 9093),)
    assert config.log_dirs == ("/var/lib/one", "/var/lib/two")
    assert config.advertised_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)
    assert [line.partition(" has")[0] for line in config.warnings] == [
        "server.properties:9: num.network.threads",
        "server.properties:10: num.io.threads",
    ]


def test_broker_id_is_a_synonym_of_node_id() -> None:
    config = NodeConfig.load(MINIMAL.replace("node.id", "broker.id"), "f")
    assert config.node_id == 1
    assert config.effective("node.id") == config.effective("broker.id") == 1


def test_overrides_win_over_the_file() -> None:
    config = NodeConfig.load(MINIMAL + "num.partitions=2", "f", {"num.partitions": "3", "broker.rack": "r"})
    assert config.num_partitions == 3
    assert config.broker_rack == "r"
    assert config.values["num.partitions"] == "3"


def test_repeated_key_uses_the_last_line_and_warns() -> None:
    config = load("num.partitions=2\nnum.partitions=3\n")
    assert config.num_partitions == 3
    assert config.warnings == ("server.properties:7: num.partitions is also set at line 6: the last value applies",)


def test_log_dir_and_metadata_log_dir() -> None:
    assert load("log.dir=/a,/b").log_dirs == ("/a", "/b")
    config = load("log.dirs=/c\nlog.dir=/a\nmetadata.log.dir=/m")
    assert config.log_dirs == ("/c",)
    assert config.metadata_log_dir == "/m"
    assert load("log.dirs=/c,/d").metadata_log_dir == "/c"


def test_topics_inherit_from_the_node() -> None:
    config = load("log.retention.hours=5\nlog.cleanup.policy=compact\nmin.insync.replicas=2")
    assert config.topic_defaults.retention_ms == 5 * 3_600_000
    assert config.topic_defaults.compact
    assert config.topic_defaults.min_insync_replicas == 2


def test_max_connections_per_ip_overrides() -> None:
    config = load("max.connections.per.ip=0\nmax.connections.per.ip.overrides=10.0.0.1:5, ::1:7 ,host:9")
    assert config.max_connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 7, "host": 9}


def test_any_config_of_kafka_has_an_effective_value() -> None:
    config = load("log.cleaner.io.max.bytes.per.second=1e6\nnum.io.threads=4")
    assert config.effective("num.io.threads") == 4
    assert config.effective("log.cleaner.io.max.bytes.per.second") == config.log_cleaner_io_max_bytes_per_second == 1e6
    assert config.effective("replica.lag.time.max.ms") == 30000
    assert config.effective("log.retention.ms") is None
    with pytest.raises(KeyError):
        config.effective("no.such.config")


def test_all_config_errors_are_reported_in_file_order() -> None:
    text = MINIMAL + "num.partitions=x\n\nlog.dirs=\\u12\nlog.retention.hours=0\nlog.segment.bytes=5\n"
    assert errors_of(text, {"socket.request.max.bytes": "-1"}) == [
        "server.properties:6: Invalid value x for configuration num.partitions: Not a number of type INT",
        "server.properties:8: \\u must be followed by four hexadecimal digits, not by '12'",
        "server.properties:9: log.retention.hours must be 1 or more, or -1 for unlimited retention",
        "server.properties:10: Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
        "--override socket.request.max.bytes: "
        "Invalid value -1 for configuration socket.request.max.bytes: Value must be at least 1",
    ]


def test_empty_file_is_rejected_with_advice() -> None:
    errors = errors_of("")
    assert errors[0].startswith("server.properties: process.roles is missing: add process.roles=broker,controller")
    assert errors[1].startswith("server.properties: node.id is missing")


def test_values_of_ignored_configs_are_checked() -> None:
    assert errors_of(MINIMAL + "num.io.threads=many") == [
        "server.properties:6: Invalid value many for configuration num.io.threads: Not a number of type INT"
    ]


def test_zookeeper_configs_are_rejected_with_advice() -> None:
    errors = errors_of("broker.id=7\nzookeeper.connect=localhost:2181\nzookeeper.session.timeout.ms=6000\n")
    assert len(errors) == 1
    assert errors[0].startswith("server.properties:2: zookeeper.connect: ZooKeeper is not supported.")
    for part in (
        "process.roles=broker,controller",
        "node.id=7",
        "controller.listener.names=CONTROLLER",
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.voters=7@localhost:9093",
    ):
        assert part in errors[0]


def test_advice_for_zookeeper_configs_is_a_valid_config() -> None:
    advised = (
        "process.roles=broker,controller",
        "node.id=7",
        "controller.listener.names=CONTROLLER",
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.voters=7@localhost:9093",
    )
    assert NodeConfig.load("\n".join(advised), "f").node_id == 7


def test_other_errors_are_reported_beside_zookeeper() -> None:
    errors = errors_of("zookeeper.connect=localhost:2181\nbroker.id=x\nlog.dirs=,\n")
    assert [line.split(":")[1] for line in errors] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("nmu.partitions=3", "nmu.partitions has no effect: unknown config; did you mean num.partitions?"),
        ("LOG.RETENTION.HOUR=3", "LOG.RETENTION.HOUR has no effect: unknown config; did you mean log.retention.hours?"),
        ("xyzzy=3", "xyzzy has no effect: unknown config"),
        ("retention.ms=3", "retention.ms has no effect: it is a topic config; use log.retention.ms"),
        (
            "max.message.bytes=3",
            "max.message.bytes has no effect: it is a topic config; use message.max.bytes",
        ),
        ("group.share.max.size=3", "group.share.max.size has no effect: it is not supported yet"),
        ("host.name=h", "host.name has no effect: use listeners=PLAINTEXT://HOST:PORT"),
        (
            "zookeeper.session.timeout.ms=3",
            "zookeeper.session.timeout.ms has no effect: Kafka 4.0 removed it together with ZooKeeper: remove the line",
        ),
        (
            "listener.name.plaintext.max.connections=3",
            "listener.name.plaintext.max.connections has no effect: configs of single listeners are not supported yet",
        ),
    ],
)
def test_ignored_config_warns_once_with_its_line(line: str, warning: str) -> None:
    assert load(line).warnings == (f"server.properties:6: {warning}",)


def test_replica_selector_must_be_one_of_kafka() -> None:
    by_rack = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    assert load(f"replica.selector.class={by_rack}\n").replica_selector_class == by_rack
    assert load("replica.selector.class=org.apache.kafka.common.replica.LeaderSelector\n").warnings == ()
    (error,) = errors_of(MINIMAL + "replica.selector.class=com.example.Nearest\n")
    assert "replica.selector.class: cannot load the Java class com.example.Nearest" in error


def test_offsets_topic_compression_codec() -> None:
    assert load("offsets.topic.compression.codec=4\n").warnings == ()
    (error,) = errors_of(MINIMAL + "offsets.topic.compression.codec=5\n")
    assert error.startswith("server.properties:6: offsets.topic.compression.codec: unknown compression type ID 5")


def test_dynamic_only_configs_in_the_file_are_ignored_with_a_warning() -> None:
    config = load("leader.replication.throttled.rate=100\n")
    assert config.leader_replication_throttled_rate == 2**63 - 1
    (warning,) = config.warnings
    assert warning.startswith("server.properties:6: leader.replication.throttled.rate has no effect in the file")


def test_reserved_configs_are_accepted_without_warning() -> None:
    assert load("offsets.topic.replication.factor=1\ntransaction.state.log.min.isr=1").warnings == ()


AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"


def test_only_the_standard_authorizer_is_supported() -> None:
    assert errors_of(MINIMAL + "authorizer.class.name=com.example.Mine") == [
        "server.properties:6: authorizer.class.name: cannot load the Java class com.example.Mine; "
        "use org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    ]
    config = load("authorizer.class.name=")
    assert (config.authorizer_class_name, config.warnings) == ("", ())
    assert not load(AUTHORIZER).allow_everyone_if_no_acl_found


def test_super_users() -> None:
    config = load(
        AUTHORIZER + "super.users= User:admin ;User:CN=a,O=b;;Group:x:y\nallow.everyone.if.no.acl.found=true\n"
    )
    assert config.super_users == {"User:admin", "User:CN=a,O=b", "Group:x:y"}
    assert config.allow_everyone_if_no_acl_found
    assert config.warnings == ()
    (error,) = errors_of(MINIMAL + AUTHORIZER + "super.users=User:a;admin")
    assert error == "server.properties:7: super.users: 'admin' is not of the form User:name"


def test_principal_builders_are_rejected_with_an_authorizer() -> None:
    (error,) = errors_of(MINIMAL + AUTHORIZER + "principal.builder.class=com.example.Mine")
    assert error.startswith("server.properties:7: principal.builder.class: cannot load this Java class")
    default = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    for config in (AUTHORIZER + f"principal.builder.class={default}", "principal.builder.class=com.example.Mine"):
        assert "principal.builder.class has no effect" in load(config).warnings[0]


def test_configs_of_the_authorizer_without_it_cause_a_warning() -> None:
    (warning,) = load("super.users=User:a").warnings
    assert warning.endswith("super.users has no effect without authorizer.class.name; set it too")


def test_configs_of_the_authorizer_are_described_without_value_as_by_kafka() -> None:
    (described,) = describe_broker(load(AUTHORIZER + "super.users=User:a"), {"super.users"})
    assert (described.value, described.sensitive, described.read_only) == (None, True, True)
    assert described.type is ConfigType.UNKNOWN


def with_tls(lines: str) -> str:
    text = MINIMAL.replace("PLAINTEXT://", "SSL://") + "security.inter.broker.protocol=SSL\n"
    return text + "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\n" + lines


def test_listener_with_tls_needs_a_key_store() -> None:
    (error,) = errors_of(with_tls(""))
    assert error.endswith("ssl.keystore.location is missing: listener SSL needs a key and a certificate")


def test_listener_with_tls() -> None:
    lines = "ssl.keystore.type=PEM\nlistener.name.ssl.ssl.keystore.location=/k.pem\n"
    config = NodeConfig.load(with_tls(lines), "server.properties")
    assert config.security_protocols["SSL"] == "SSL"
    assert config.warnings == ()


def test_errors_of_tls_name_the_config_with_its_prefix() -> None:
    lines = "ssl.keystore.location=/k.pem\nlistener.name.ssl.ssl.keystore.type=BKS\n"
    (error,) = errors_of(with_tls(lines))
    assert error == (
        "server.properties:9: listener.name.ssl.ssl.keystore.type: BKS is not supported; use one of JKS, PKCS12, PEM"
    )


def test_broker_only_config() -> None:
    config = NodeConfig.load(
        "process.roles=broker\nnode.id=4\nlisteners=PLAINTEXT://:9092\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093",
        "f",
    )
    assert (config.is_broker, config.is_controller) == (True, False)
    assert config.broker_listeners == config.advertised_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.controller_listeners == config.advertised_controller_listeners == ()
    assert [voter.node_id for voter in config.controller_quorum_voters] == [1, 2, 3]


def test_controller_only_config() -> None:
    config = NodeConfig.load(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "advertised.listeners=CONTROLLER://c:19093\ncontroller.quorum.bootstrap.servers=a:9093\n",
        "f",
    )
    assert (config.is_broker, config.is_controller) == (False, True)
    assert config.broker_listeners == config.advertised_listeners == ()
    assert config.controller_listeners == (Listener("CONTROLLER", "PLAINTEXT", "", 9093),)
    assert config.advertised_controller_listeners == (Listener("CONTROLLER", "PLAINTEXT", "c", 19093),)


def test_wrong_role_is_rejected_with_advice() -> None:
    broker = MINIMAL.replace("broker,controller", "broker")
    assert errors_of(broker) == [
        "server.properties:3: listeners: CONTROLLER is a controller listener, and this node is only a broker; "
        "remove it, or set process.roles=broker,controller",
        "server.properties:5: controller.quorum.voters: node 1 is only a broker and cannot be a voter; set "
        "process.roles=broker,controller",
    ]
    controller = MINIMAL.replace("broker,controller", "controller")
    assert errors_of(controller) == [
        "server.properties:3: listeners: PLAINTEXT is not a controller listener, and this node is only a "
        "controller; add it to controller.listener.names, or set process.roles=broker,controller",
    ]
    alone = "process.roles=broker\nnode.id=4\ncontroller.listener.names=CONTROLLER\n"
    assert errors_of(alone) == [
        "server.properties: controller.quorum.voters is missing: "
        "add controller.quorum.voters=ID@HOST:9093, for each controller"
    ]


def test_odradek_own_configs() -> None:
    assert load().broker_disconnect_grace_ms == 300
    config = load("broker.disconnect.grace.ms=0")
    assert (config.broker_disconnect_grace_ms, config.warnings) == (0, ())
    assert "Value must be at least 0" in errors_of(MINIMAL + "broker.disconnect.grace.ms=-1")[0]


def test_record_validation() -> None:
    assert load().record_validation == "header"
    config = load("record.validation=full")
    assert (config.record_validation, config.warnings) == ("full", ())
    assert "String must be one of: header, full" in errors_of(MINIMAL + "record.validation=records")[0]


def test_record_validation_can_change_for_all_brokers_or_one() -> None:
    config = load("record.validation=full")
    assert overlay(config, {}, {"record.validation": "header"}).record_validation == "header"
    assert overlay(config, {"record.validation": "full"}, {"record.validation": "header"}).record_validation == "full"


def test_record_validation_is_described_once_it_is_set() -> None:
    """Apache Kafka's DescribeConfigs does not have it."""
    name = "record.validation"
    assert [one.value for one in describe_broker(load()) if one.name == name] == []
    assert [one.value for one in describe_broker(load(f"{name}=full")) if one.name == name] == ["full"]
    changed = overlay(load(), {}, {name: "full"})
    ((value, read_only, source),) = (
        (one.value, one.read_only, one.source) for one in describe_broker(changed) if one.name == name
    )
    assert (value, read_only, source) == ("full", False, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def test_http_address_is_host_and_port() -> None:
    assert load().http_address is None
    assert load("http.address=").http_address is None
    assert load("http.address=9644").http_address == ("127.0.0.1", 9644)
    assert load("http.address=0.0.0.0:9644").http_address == ("0.0.0.0", 9644)
    assert load("http.address=[::1]:0").http_address == ("::1", 0)
    for wrong in ("localhost", "http://localhost:9644", "localhost:99999", "127.0.0.1:x"):
        (error,) = errors_of(MINIMAL + f"http.address={wrong}")
        assert "http.address" in error


def test_consequential_errors_are_not_reported() -> None:
    assert errors_of(MINIMAL.replace("controller.listener.names", "# ")) == [
        "server.properties: controller.listener.names is missing: add controller.listener.names=CONTROLLER "
        "and add CONTROLLER://:9093 to listeners"
    ]
    assert len(errors_of(MINIMAL + "listener.security.protocol.map=PLAINTEXT:NONE")) == 1
    assert len(errors_of(MINIMAL + "listeners=PLAINTEXT//:9092")) == 1


def test_missing_voter_advice_names_the_controller_port() -> None:
    text = MINIMAL.replace("controller.quorum.voters", "# ").replace("9093", "19093")
    assert errors_of(text) == [
        "server.properties: controller.quorum.voters is missing: add controller.quorum.voters=1@localhost:19093"
    ]


def test_repr_contains_no_passwords() -> None:
    assert "secret" not in repr(load("ssl.keystore.password=secret"))


WE_ARE_STRICTER = [
    {"advertised.listeners": "PLAINTEXT://h:70000"},
    {"listeners": "PLAINTEXT://h:70000,CONTROLLER://h:1"},
    {"listeners": "PLAINTEXT://h:-1,CONTROLLER://h:1"},
    {"controller.quorum.voters": "1@:9093"},
    {"controller.quorum.voters": "-1@a:1,1@h:1"},
]
WE_ARE_MILDER = [
    # Names of listeners are upper-cased everywhere.
    {"controller.listener.names": "controller"},
    # Each of these is about a config that has no effect here, and warns of that.
    {"connections.max.idle.ms": "50"},
    {"queued.max.request.bytes": "100"},
    {"replica.fetch.wait.max.ms": "40000"},
]


@pytest.mark.parametrize(("changes", "expected"), STARTED["answers"], ids=lambda value: str(value)[:60])
def test_files_are_accepted_and_rejected_as_by_kafka(changes: dict[str, str | None], expected: str | None) -> None:
    properties = {key: value for key, value in (STARTED["base"] | changes).items() if value is not None}
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    refused = expected is not None
    if changes in WE_ARE_STRICTER or changes in WE_ARE_MILDER:
        refused = changes in WE_ARE_STRICTER
    if refused:
        assert len(errors_of(text)) == 1
    else:
        NodeConfig.load(text, "server.properties")
