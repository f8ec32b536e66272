"""A cluster of `odradek.testing` with `secure=True`: clients of other projects, and failover with TLS between nodes."""

import json
import logging
import shlex
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from odradek.cli.main import run
from odradek.local.security_files import SecurityFiles
from odradek.testing import Cluster
from odradek.testing.errors import ClusterError
from tests.wire.plain_requests import until

MECHANISM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, secure=True) as started:
        yield started


@pytest.fixture(scope="module")
def files(cluster: Cluster) -> SecurityFiles:
    return SecurityFiles(cluster.client_properties.parent)


def test_confluent_kafka(cluster: Cluster, files: SecurityFiles) -> None:
    configs = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": "admin",
        "sasl.password": files.administrator().password,
        "ssl.ca.location": str(files.authority),
    }
    producer = Producer({**configs, "enable.idempotence": True})
    producer.produce("confluent", b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer({**configs, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    record = consumer.poll(20)
    assert record is not None and record.value() == b"hello"
    consumer.close()


def test_kafka_python(cluster: Cluster, files: SecurityFiles) -> None:
    configs = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": "admin",
        "sasl_plain_password": files.administrator().password,
        "ssl_cafile": str(files.authority),
    }
    producer = KafkaProducer(**configs)
    producer.send("kafka-python", b"hello").get(20)
    producer.close()
    consumer = KafkaConsumer("kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **configs)
    assert next(consumer).value == b"hello"
    consumer.close()


@pytest.fixture(scope="module")
def ann(cluster: Cluster, files: SecurityFiles, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options of a new user."""
    directory = tmp_path_factory.mktemp("ann")
    password, login = directory / "password", directory / "ann.properties"
    password.write_text("a password of ann")
    assert run(["user", "add", "ann", "--password-file", str(password), *administrator(cluster)]) == 0
    properties = cluster.client_properties.read_text().replace('"admin"', '"ann"')
    login.write_text(properties.replace(files.administrator().password, password.read_text()))
    options = ["-b", cluster.bootstrap_servers, "--command-config", str(login)]
    deadline = time.monotonic() + 20
    while run(["topic", "list", *options]) != 0:
        # Brokers receive the new user with the metadata log.
        assert time.monotonic() < deadline
    return options


def administrator(cluster: Cluster) -> list[str]:
    return ["-b", cluster.bootstrap_servers, "--command-config", str(cluster.client_properties)]


def test_a_new_user_may_do_nothing_without_acls(
    cluster: Cluster, ann: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topic", "create", "private", *administrator(cluster)]) == 0
    capsys.readouterr()
    assert run(["topic", "list", "--format", "json", *ann]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert run(["produce", "private", "hello", *ann]) == 2
    assert run(["topic", "delete", "private", "--yes", *ann]) == 2
    assert "TOPIC_AUTHORIZATION_FAILED" in capsys.readouterr().err


WRITE_ORDERS = ("--principal", "User:ann", "--operation", "Write", "--resource", "topic:orders")
SUPER_USERS = ("--super-users", "User:admin")
"""Brokers show the value of this config to no client."""


class AdminCommands:
    """Commands of the administrator: what they print to standard output."""

    def __init__(self, cluster: Cluster, capture: pytest.CaptureFixture[str]) -> None:
        self._options = administrator(cluster)
        self._capture = capture

    def __call__(self, *command: str, status: int = 0) -> str:
        self._capture.readouterr()
        assert run([*command, *self._options]) == status
        return self._capture.readouterr().out

    def explain(self, *options: str, operation: str = "Write") -> Any:
        check = ["--principal", "User:ann", "--operation", operation, "--resource", "topic:orders"]
        return json.loads(self("acl", "explain", *check, *SUPER_USERS, *options, "--format", "json"))


@pytest.fixture
def admin(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> AdminCommands:
    return AdminCommands(cluster, capsys)


def test_a_denial_is_logged_and_its_message_contains_the_command_that_allows_it(
    admin: AdminCommands, ann: list[str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    admin("topic", "create", "orders")
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    assert run(["produce", "orders", "hello", *ann]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    denied, _, command = error.partition(" An administrator can allow it: ")
    assert denied == "error: User:ann may not WRITE to topic orders (TOPIC_AUTHORIZATION_FAILED)."
    logged = "Denied: principal=User:ann, operation=DESCRIBE, resource=TOPIC:LITERAL:orders, host=127.0.0.1, rule="
    assert any(message.startswith(logged) for message in caplog.messages)
    denial = admin.explain()
    assert (denial["reason"], denial["commands"]) == ("NO_ACL", [command])
    assert admin("acl", "test", *WRITE_ORDERS, status=1) == "User:ann may not WRITE to topic orders.\n"
    admin(*shlex.split(command)[1:])
    until(lambda: run(["produce", "orders", "hello", *ann]) == 0, what="the permission to write")


def test_acls_are_added_explained_listed_and_removed(admin: AdminCommands) -> None:
    admin("acl", "add", "--allow-principal", "User:ann", "--operation", "Write", "--topic", "orders")
    until(lambda: admin.explain()["reason"] == "ALLOW_ACL", what="the new ACL")
    assert admin("acl", "test", *WRITE_ORDERS, *SUPER_USERS) == "User:ann may WRITE to topic orders.\n"
    implied = admin.explain(operation="Describe")
    assert (implied["allowed"], implied["implied_by"]) == (True, "WRITE")
    assert json.loads(admin("acl", "list", "--principal", "User:ann", "--format", "json")) == [implied["acl"]]

    deny = ("--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--topic", "ord")
    admin("acl", "add", *deny, "--resource-pattern-type", "prefixed")
    until(lambda: admin.explain("--host", "10.0.0.1")["reason"] == "DENY_ACL", what="the denial")
    assert admin.explain()["allowed"]
    (command,) = admin.explain("--host", "10.0.0.1")["commands"]
    admin(*shlex.split(command)[1:], "--yes")
    until(lambda: admin.explain("--host", "10.0.0.1")["allowed"], what="the end of the denial")
    admin("acl", "remove", "--allow-principal", "User:ann", "--yes")
    until(lambda: admin("acl", "list", "--format", "json") == "[]\n", what="the end of all ACLs")
    admin("acl", "remove", "--allow-principal", "User:ann", "--yes", status=2)


def test_explanations_state_which_configs_are_unknown(
    admin: AdminCommands, ann: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "super.users is unknown, because the brokers do not show its value" in admin("acl", "explain", *WRITE_ORDERS)
    assert run(["acl", "explain", *WRITE_ORDERS, *ann]) == 2
    assert "User:ann may not DESCRIBE the cluster" in capsys.readouterr().err
    admin("acl", "add", "--allow-principal", "User:ann", "--operation", "Describe", "--cluster")
    until(lambda: run(["acl", "explain", *WRITE_ORDERS, *ann]) == 0, what="the permission to read ACLs")
    assert "super.users is unknown, because this client may not read" in capsys.readouterr().out
    admin("acl", "remove", "--cluster", "--yes")


def test_another_broker_leads_after_a_kill(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-b", cluster.bootstrap_servers, "--command-config", str(cluster.client_properties)]
    assert run(["topic", "create", "failover", *options]) == 0
    leader = cluster.leader("failover")
    cluster.kill(leader)
    assert run(["produce", "failover", "hello", *options]) == 0
    assert cluster.leader("failover") != leader
    cluster.restart(leader)
    cluster.wait_until_healthy()
    capsys.readouterr()
    assert run(["consume", "failover", "--no-follow", *options]) == 0
    assert capsys.readouterr().out == "hello\n"


class AuditEvents:
    """The audit logs of all nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.paths = [cluster.client_properties.parent / f"node-{one}" / "audit.log" for one in cluster.brokers]

    def text(self) -> str:
        return "".join(path.read_text() for path in self.paths)

    def of(self, event: str, resource: str) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.text().splitlines()]
        return [one for one in events if one["event"] == event and one["resource_name"] == resource]

    def wait_for(self, event: str, resource: str, *, count: int = 1) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 20
        while len(found := self.of(event, resource)) < count:
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.02)
        return found


@pytest.fixture
def audited(cluster: Cluster) -> AuditEvents:
    return AuditEvents(cluster)


def test_only_the_owner_can_read_the_audit_log(audited: AuditEvents) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in audited.paths} == {0o600}


def test_changes_are_audited_once_with_their_principal_and_values(
    cluster: Cluster, audited: AuditEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_PASSWORD", "a password of carl")
    for number in cluster.brokers:
        # At most one of them is the active controller: the others forward the request.
        options = ["-b", str(cluster._address(number)), "--command-config", str(cluster.client_properties)]
        topic, partitions = f"audited-{number}", 2
        assert run(["topic", "create", topic, "--partitions", str(partitions), *options]) == 0
        assert run(["config", "set", "--topic", topic, "retention.ms=1000", *options]) == 0
        assert run(["config", "set", "--topic", topic, "retention.ms=2000", *options]) == 0
        assert run(["topic", "delete", topic, "--yes", *options]) == 0
    assert run(["user", "add", "carl", *options]) == 0
    for number in cluster.brokers:
        topic = f"audited-{number}"
        (deleted,) = audited.wait_for("topic.delete", topic)
        (created,) = audited.of("topic.create", topic)
        altered = audited.of("config.alter", topic)
        assert {one["principal"] for one in (created, deleted, *altered)} == {"User:admin"}
        assert {one["address"] for one in (created, deleted, *altered)} == {"127.0.0.1"}
        assert {one["outcome"] for one in (created, deleted, *altered)} == {"success"}
        assert (created["before"], created["after"]["partitions"]) == (None, partitions)
        assert [(one["before"], one["after"]) for one in altered] == [
            ({"retention.ms": None}, {"retention.ms": "1000"}),
            ({"retention.ms": "1000"}, {"retention.ms": "2000"}),
        ]
        assert (deleted["before"]["configs"], deleted["after"]) == ({"retention.ms": "2000"}, None)
    (added,) = audited.wait_for("scram_credential.alter", "carl")
    assert added["before"] == {MECHANISM: None}
    assert "a password of carl" not in audited.text()


def test_passwords_in_configs_are_not_audited(cluster: Cluster, audited: AuditEvents) -> None:
    options = ["-b", cluster.bootstrap_servers, "--command-config", str(cluster.client_properties)]
    name = "listener.name.other.ssl.key.password"
    assert run(["config", "set", "--broker", "2", f"{name}=not for logs", *options]) == 0
    assert run(["config", "set", "--broker", "2", "--delete", name, *options]) == 0
    altered, removed = audited.wait_for("config.alter", "2", count=2)
    assert (altered["before"], altered["after"]) == ({name: None}, {name: "(redacted)"})
    assert (removed["before"], removed["after"]) == ({name: "(redacted)"}, {name: None})
    assert "not for logs" not in audited.text()


def test_failed_logins_and_denials_are_audited(
    cluster: Cluster, audited: AuditEvents, files: SecurityFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    administrator = ["-b", cluster.bootstrap_servers, "--command-config", str(cluster.client_properties)]
    monkeypatch.setenv("ODRADEK_PASSWORD", "a password of eve")
    assert run(["user", "add", "eve", *administrator]) == 0
    login = cluster.client_properties.read_text().replace('"admin"', '"eve"')
    eve, mistaken = tmp_path / "eve.properties", tmp_path / "mistaken.properties"
    mistaken.write_text(login)
    eve.write_text(login.replace(files.administrator().password, "a password of eve"))
    assert run(["topic", "list", "-b", cluster.bootstrap_servers, "--command-config", str(mistaken)]) != 0
    failed = audited.wait_for("authentication", "eve")[0]
    assert (failed["outcome"], failed["mechanism"], failed["listener"]) == ("failure", MECHANISM, "CLIENT")
    assert (failed["address"], failed["principal"]) == ("127.0.0.1", None)
    deadline = time.monotonic() + 20
    while run(["topic", "create", "of-eve", "-b", cluster.bootstrap_servers, "--command-config", str(eve)]) != 2:
        assert time.monotonic() < deadline
    denied = audited.wait_for("authorization", "of-eve")
    assert {(one["outcome"], one["principal"], one["operation"]) for one in denied} == {
        ("denied", "User:eve", "CREATE")
    }
    assert {(one["address"], one["api"]) for one in denied} == {("127.0.0.1", "CreateTopics")}
    assert audited.of("topic.create", "of-eve") == []
    assert files.administrator().password not in audited.text()


def test_only_secure_clusters_have_client_properties() -> None:
    with pytest.raises(ClusterError, match="secure=True"):
        _ = Cluster(1).client_properties
