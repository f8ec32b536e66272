"""Transactions on three brokers: if a coordinator or leader dies, each transaction still ends the same everywhere."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.errors import ErrorCode
from tests.apis import Api, latest
from tests.cluster.real_cluster import COMBINED, REPLICATED_COORDINATORS, Member, RealCluster, real_cluster, wait_for
from tests.raw_wire import ConnectionClosed, RawConnection

PARTITIONS = 3
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    roles = dict.fromkeys((1, 2, 3), COMBINED)
    with real_cluster(tmp_path_factory.mktemp("transactions"), roles, properties=REPLICATED_COORDINATORS) as started:
        yield started


@pytest.fixture(autouse=True)
def whole(cluster: RealCluster) -> Iterator[None]:
    yield
    cluster.start_the_dead()


def create(cluster: RealCluster, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 3) for topic in topics]).values():
        created.result(20)


def transactional(cluster: RealCluster, name: str, **others: Any) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0, "linger.ms": 0}
    producer = Producer(settings | others)
    producer.init_transactions(SECONDS_MAX)
    return producer


def coordinator(cluster: RealCluster, name: str) -> Member:
    found: list[int] = []

    def is_found() -> bool:
        for node in cluster.running:
            try:
                with RawConnection(node.port, timeout_s=10) as connection:
                    fields = {"key_type": 1, "coordinator_keys": [name]}
                    response = connection.request(Api.FIND_COORDINATOR, latest(Api.FIND_COORDINATOR), fields)
            except (OSError, ConnectionClosed):
                continue
            if response.coordinators[0].error_code is ErrorCode.none:
                found[:] = [response.coordinators[0].node_id]
                return True
        return False

    wait_for(f"a coordinator of {name}", is_found)
    return cluster.nodes[found[0]]


def ends(cluster: RealCluster, partitions: list[TopicPartition], isolation: str) -> list[int] | None:
    """End offsets of the partitions for this isolation level; None while one has no leader."""
    # A new consumer each time, because librdkafka remembers which partition had no leader.
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "ends", "isolation.level": isolation, "log_level": 0}
    )
    try:
        return [reader.get_watermark_offsets(one, 10)[1] for one in partitions]
    except KafkaException:
        return None
    finally:
        reader.close()


def committed(cluster: RealCluster, topic: str) -> list[list[bytes]]:
    """Committed values of each partition, once no transaction is open."""
    partitions = [TopicPartition(topic, index, 0) for index in range(PARTITIONS)]

    def has_no_open_transaction() -> bool:
        stable = ends(cluster, partitions, "read_committed")
        return stable is not None and stable == ends(cluster, partitions, "read_uncommitted")

    wait_for(f"the ends of all transactions in {topic}", has_no_open_transaction, SECONDS_MAX)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        ended: set[int] = set()
        consumer.assign(partitions)

        def are_read() -> bool:
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found[message.partition()].append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
            return len(ended) == PARTITIONS

        wait_for(f"the end of {topic}", are_read, SECONDS_MAX)
        return found
    finally:
        consumer.close()


def end(producer: Producer, *, commits: bool) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS_MAX)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


@pytest.mark.parametrize("commits", [True, pytest.param(False, marks=pytest.mark.tier("proof"))])
def test_open_transaction_survives_the_death_of_its_coordinator(cluster: RealCluster, commits: bool) -> None:
    topic = f"coordinator-{commits}"
    create(cluster, topic)
    producer = transactional(cluster, topic)
    expected: list[bytes] = []
    for number in range(4):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=index)
        producer.flush(SECONDS_MAX)
        if number == 1:
            coordinator(cluster, topic).kill()
        end(producer, commits=commits or number != 1)
        if commits or number != 1:
            expected.append(b"%d" % number)
    assert committed(cluster, topic) == [expected] * PARTITIONS


def test_prepared_commit_completes_after_the_death_of_its_coordinator(cluster: RealCluster) -> None:
    """The producer and the partitions may not have received the outcome; the next coordinator writes the markers."""
    topic = "deciding"
    create(cluster, topic)
    for number in range(3):
        name = f"deciding-{number}"
        producer = transactional(cluster, name)
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=index)
        producer.flush(SECONDS_MAX)
        there = coordinator(cluster, name)
        with RawConnection(there.port) as connection:
            fields: dict[str, Any] = {"transactional_ids": [name]}
            (state,) = connection.request(Api.DESCRIBE_TRANSACTIONS, 0, fields).transaction_states
            fields = {
                "transactional_id": name,
                "producer_id": state.producer_id,
                "producer_epoch": state.producer_epoch,
                "committed": True,
            }
            assert connection.request(Api.END_TXN, 3, fields).error_code is ErrorCode.none
            there.kill()
        cluster.start_the_dead()
        cluster.wait_until_whole()
    assert [sorted(one) for one in committed(cluster, topic)] == [[b"0", b"1", b"2"]] * PARTITIONS


@pytest.mark.tier("proof")
def test_transactions_stay_atomic_while_leaders_are_killed(cluster: RealCluster) -> None:
    create(cluster, "bounced")
    producer = transactional(cluster, "bounced", **{"transaction.timeout.ms": 60_000})
    expected: list[bytes] = []
    for number in range(30):
        if number % 10 == 5:
            cluster.nodes[1 + number // 10].kill()
        if number % 10 == 9:
            cluster.start_the_dead()
            cluster.wait_until_whole()
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce("bounced", b"%d" % number, partition=index)
        commits = number % 3 != 2
        try:
            end(producer, commits=commits)
        except KafkaException as error:
            assert error.args[0].txn_requires_abort(), error
            end(producer, commits=False)
            commits = False
        if commits:
            expected.append(b"%d" % number)
    assert len(expected) > 10
    assert committed(cluster, "bounced") == [expected] * PARTITIONS


def test_transaction_of_a_dead_producer_is_aborted_after_its_timeout(cluster: RealCluster) -> None:
    create(cluster, "gone")
    producer = transactional(cluster, "gone", **{"transaction.timeout.ms": 2_000, "message.timeout.ms": 2_000})
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce("gone", b"left", partition=index)
    producer.flush(SECONDS_MAX)
    coordinator(cluster, "gone").kill()
    assert committed(cluster, "gone") == [[]] * PARTITIONS
