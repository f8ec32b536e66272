"""Nodes of Odradek and Apache Kafka in one cluster with SASL_SSL on every connection, and ACLs.

Each product authenticates to the other as client, broker and controller, replicates from it, and forwards requests
with the principal of its client. The configs are those of `docs/how-to/secure-a-running-cluster.md`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.base.errors import KafkaError as OdradekError
from odradek.client.admin import Admin
from odradek.client.errors import ClientError
from odradek.client.security import Sasl
from tests.cluster.migrating_cluster import (
    ADMIN,
    ADMIN_PASSWORD,
    CLIENT,
    MECHANISM,
    MigratingCluster,
    MigratingKafka,
    MigratingOdradek,
)
from tests.cluster.real_cluster import REPLICATED_COORDINATORS, roles_of, wait_for
from tests.cluster.security_migration import migration

pytestmark = [pytest.mark.kafka, pytest.mark.tier("proof"), pytest.mark.timeout(400)]

CONTROLLER, OURS, THEIRS = 1, 2, 3
SEPARATE = roles_of(controllers=(CONTROLLER,), brokers=(OURS, THEIRS))
COMBINED = roles_of(combined=(1, 2, 3))
USER = Sasl(mechanism=MECHANISM, username="app", password="app-secret")
WHOLE_S_MAX = 90.0
RESPONSE_S_MAX = 30.0
RECORDS = 300
TWO_REPLICAS = {
    **REPLICATED_COORDINATORS,
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    # The time of Apache Kafka's brokers to leave a session that ended uncleanly.
    "broker.session.timeout.ms": "6000",
}


def new_node(libs: Path, kafka_ids: set[int], directory: Path) -> MigratingOdradek | MigratingKafka:
    is_kafka = int(directory.name.removeprefix("node-")) in kafka_ids
    return MigratingKafka(libs, directory) if is_kafka else MigratingOdradek(directory)


@contextmanager
def mixed_cluster(
    directory: Path, libs: Path, roles: Mapping[int, Sequence[str]], kafka_ids: set[int], properties: Mapping[str, str]
) -> Iterator[MigratingCluster]:
    new_member = partial(new_node, libs, kafka_ids)
    cluster = MigratingCluster(directory, roles, new_member=new_member, properties=properties)
    cluster.secure_before_start(USER)
    try:
        cluster.start()
        yield cluster
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        cluster.remove()


@pytest.fixture(scope="module", params=["controller of Odradek's", "controller of Kafka's"])
def cluster(
    request: pytest.FixtureRequest, apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MigratingCluster]:
    kafka_ids = {THEIRS} | ({CONTROLLER} if "Kafka" in request.param else set())
    directory = tmp_path_factory.mktemp("mixed-secure")
    with mixed_cluster(directory, apache_kafka_libs, SEPARATE, kafka_ids, TWO_REPLICAS) as cluster:
        yield cluster


def settings_at(cluster: MigratingCluster, node_id: int, user: str, password: str) -> dict[str, Any]:
    """Bootstrap at this broker only."""
    node = cluster.nodes[node_id]
    return cluster.client_settings(user, password) | {"bootstrap.servers": f"{node.host}:{node.port_of(CLIENT)}"}


def admin_at(cluster: MigratingCluster, node_id: int) -> AdminClient:
    return AdminClient(settings_at(cluster, node_id, ADMIN, ADMIN_PASSWORD))


def allow(
    admin: AdminClient,
    user: str,
    kind: ResourceType,
    name: str,
    *operations: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> None:
    bindings = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    for future in admin.create_acls(bindings).values():
        future.result(RESPONSE_S_MAX)


def wait_for_acls(cluster: MigratingCluster, name: str, count: int) -> None:
    """On every broker: each decides by what it has applied."""
    every = AclBindingFilter(
        ResourceType.ANY, name, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for node in cluster.brokers:
        admin = admin_at(cluster, node.node_id)
        wait_for(
            f"the ACLs of {name} on node {node.node_id}",
            lambda admin=admin: len(admin.describe_acls(every).result(RESPONSE_S_MAX)) == count,  # type: ignore[misc]
        )


def error_of(action: Callable[[], object]) -> int | None:
    try:
        action()
    except KafkaException as failure:
        return int(failure.args[0].code())
    return None


def create_topic_as_user(cluster: MigratingCluster, node_id: int, name: str) -> int | None:
    """The error, or None."""
    client = AdminClient(settings_at(cluster, node_id, USER.username, USER.password))
    return error_of(lambda: client.create_topics([NewTopic(name, 1, 1)])[name].result(RESPONSE_S_MAX))


def produce(cluster: MigratingCluster, topic: str, partitions: int) -> None:
    settings = cluster.client_settings(USER.username, USER.password)
    producer = Producer({**settings, "acks": "all", "enable.idempotence": True, "log_level": 0})
    errors: list[KafkaError] = []
    for number in range(RECORDS):
        producer.produce(
            topic,
            str(number).encode(),
            partition=number % partitions,
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )
    assert producer.flush(RESPONSE_S_MAX) == 0
    assert not errors


def consume(cluster: MigratingCluster, topic: str, count: int) -> list[int]:
    settings = cluster.client_settings(USER.username, USER.password)
    consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0})
    consumer.subscribe([topic])
    found: list[int] = []
    try:
        while len(found) < count:
            message = consumer.poll(RESPONSE_S_MAX)
            assert message is not None, f"{len(found)} of {count} records"
            assert message.error() is None
            found.append(int(message.value() or b""))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(found)


def layout_of(cluster: MigratingCluster, topic: str) -> list[tuple[int, set[int]]]:
    """Leader and ISR of each partition."""
    try:
        with cluster.client(timeout_s=5.0) as client:
            found = client.layout([topic]).topics.get(topic)
    except (ClientError, OdradekError):
        return []
    return [] if found is None else [(one.leader, set(one.isr)) for one in found.partitions]


def have_equal_logs(cluster: MigratingCluster, topic: str, partition: int) -> bool:
    logs = [node.log_bytes(topic, partition) for node in cluster.brokers]
    return bool(logs[0]) and logs.count(logs[0]) == len(logs)


def test_each_broker_replicates_from_the_other(cluster: MigratingCluster) -> None:
    topic = "replicated"
    admin = admin_at(cluster, OURS)
    with cluster.client(OURS) as client:
        Admin(client).create_topic(topic, partitions=2, replication_factor=2)
    allow(admin, USER.username, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
    allow(admin, USER.username, ResourceType.GROUP, "readers", AclOperation.READ)
    wait_for_acls(cluster, topic, 2)
    wait_for_acls(cluster, "readers", 1)
    wait_for("a leader of each product", lambda: {one for one, _ in layout_of(cluster, topic)} == {OURS, THEIRS})
    produce(cluster, topic, 2)
    assert consume(cluster, topic, RECORDS) == list(range(RECORDS))
    for partition in range(2):
        wait_for("equal logs", lambda number=partition: have_equal_logs(cluster, topic, number))  # type: ignore[misc]
    for leaving, staying in ((OURS, THEIRS), (THEIRS, OURS)):
        cluster.nodes[leaving].stop()
        wait_for("the other leader", lambda one=staying: layout_of(cluster, topic) == [(one, {one})] * 2)  # type: ignore[misc]
        cluster.nodes[leaving].start()
        cluster.wait_until_whole(WHOLE_S_MAX)
        wait_for("both in sync", lambda: all(isr == {OURS, THEIRS} for _, isr in layout_of(cluster, topic)))
    produce(cluster, topic, 2)
    for partition in range(2):
        wait_for("equal logs", lambda number=partition: have_equal_logs(cluster, topic, number))  # type: ignore[misc]


@pytest.mark.parametrize(("through", "other"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_forwarded_request_has_the_principal_of_the_client(cluster: MigratingCluster, through: int, other: int) -> None:
    """The broker is a super user and its client is not: the controller decides about the client."""
    prefix = f"made-through-{through}-"
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert create_topic_as_user(cluster, through, f"{prefix}early") == denied
    # The ACL is created through the other broker.
    allow(
        admin_at(cluster, other),
        USER.username,
        ResourceType.TOPIC,
        prefix,
        AclOperation.CREATE,
        pattern=ResourcePatternType.PREFIXED,
    )
    wait_for("the ACL", lambda: create_topic_as_user(cluster, through, f"{prefix}late") != denied)
    assert create_topic_as_user(cluster, through, f"{prefix}again") is None
    assert create_topic_as_user(cluster, through, f"other-{prefix}") == denied
    with cluster.client(other) as client:
        wait_for("the topics at the other broker", lambda: f"{prefix}again" in client.layout(None).topics)
        assert f"other-{prefix}" not in client.layout(None).topics


@pytest.mark.parametrize(("through", "other"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_user_added_through_one_broker_logs_in_at_the_other(
    cluster: MigratingCluster, through: int, other: int
) -> None:
    name = f"added-through-{through}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = admin_at(cluster, through)
    for future in admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, b"secret")]).values():
        future.result(RESPONSE_S_MAX)

    def has_access(password: str) -> bool:
        client = AdminClient({**settings_at(cluster, other, name, password), "log_level": 0})
        return error_of(lambda: client.list_topics(timeout=3)) is None

    wait_for("the login at the other broker", lambda: has_access("secret"))
    assert not has_access("wrong")


@pytest.mark.parametrize("kafka_ids", [{3}, {2, 3}], ids=["one of Kafka's", "two of Kafka's"])
def test_controllers_vote_and_follow_over_sasl_ssl(
    apache_kafka_libs: Path, tmp_path: Path, kafka_ids: set[int]
) -> None:
    products_that_led = set()
    with mixed_cluster(tmp_path, apache_kafka_libs, COMBINED, kafka_ids, REPLICATED_COORDINATORS) as cluster:
        for turn in range(3):
            leader, epoch = cluster.leadership()
            products_that_led.add(leader.name)
            leader.stop()
            wait_for("a successor", lambda former=leader: cluster.active_controller() is not former)  # type: ignore[misc]
            successor, next_epoch = cluster.leadership()
            assert next_epoch > epoch
            products_that_led.add(successor.name)
            for node in cluster.running:
                with cluster.client(node.node_id, timeout_s=RESPONSE_S_MAX) as client:
                    Admin(client).create_topic(
                        f"turn-{turn}-through-{node.node_id}", partitions=3, replication_factor=2
                    )
            leader.start()
            cluster.wait_until_whole(WHOLE_S_MAX)
        for node in cluster.brokers:
            with cluster.client(node.node_id) as client:
                assert len([name for name in client.layout(None).topics if name.startswith("turn-")]) == 6
    # Of two successive leaders, at least one is of the product with two nodes.
    assert ("kafka" if len(kafka_ids) == 2 else "odradek") in products_that_led


@pytest.mark.timeout(900)
@pytest.mark.parametrize("dynamic_voters", [False, True], ids=["static voters", "dynamic voters"])
def test_mixed_cluster_is_secured_while_it_runs(
    apache_kafka_libs: Path, dynamic_voters: bool, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    """During each step, nodes of both products connect to each other in the old and in the new way."""
    new_member = partial(new_node, apache_kafka_libs, {THEIRS})
    with migration(tmp_path, measured, COMBINED, new_member=new_member, dynamic_voters=dynamic_voters) as running:
        running.secure()
