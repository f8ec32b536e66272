"""Three nodes that talk to each other over TLS with client certificates: consensus, replication, transactions."""

import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.client.address import Address
from odradek.node import security
from odradek.testing.health import find_problem
from tests.certificates import Authority
from tests.node_process import KEEPS_OLD_RECORDS, free_ports
from tests.wire.hosted_node import HostedNode

NODES = (1, 2, 3)


class TlsCluster:
    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        ports = free_ports(9)
        self.clients, self.internal, self.controllers = ports[:3], ports[3:6], ports[6:]
        directory.joinpath("ca.pem").write_bytes(self.authority.pem)
        self.directory = directory
        for node_id in NODES:
            self.renew(node_id)
        self.nodes = {node_id: self._node(node_id) for node_id in NODES}

    def renew(self, node_id: int) -> None:
        self.authority.issue(f"node-{node_id}").save(self.directory / f"node-{node_id}.pem")

    def _node(self, node_id: int) -> HostedNode:
        at = node_id - 1
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in zip(NODES, self.controllers, strict=True))
        return HostedNode(
            self.directory / str(node_id),
            properties={
                **KEEPS_OLD_RECORDS,
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{self.clients[at]},INTERNAL://127.0.0.1:{self.internal[at]},"
                f"CONTROLLER://127.0.0.1:{self.controllers[at]}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL",
                "inter.broker.listener.name": "INTERNAL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.directory / f"node-{node_id}.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.directory / "ca.pem"),
                "ssl.client.auth": "required",
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "offsets.topic.replication.factor": "3",
                "transaction.state.log.replication.factor": "3",
                "transaction.state.log.min.isr": "2",
            },
        )

    @property
    def addresses(self) -> dict[int, Address]:
        return {node_id: Address("127.0.0.1", port) for node_id, port in zip(NODES, self.clients, strict=True)}

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.addresses.values()))

    def start(self) -> contextlib.ExitStack:
        """Each node waits for the others before it serves clients."""
        stack = contextlib.ExitStack()
        for node in self.nodes.values():
            stack.callback(node.__exit__, None, None, None)
            node.begin()
        for node in self.nodes.values():
            # All at once: the last ones could not leave a quorum of one.
            stack.callback(node.request_stop)
            node.wait_until_ready()
        return stack

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + 30
        while problem := find_problem(self.addresses):
            assert time.monotonic() < deadline, problem
            time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    made = TlsCluster(tmp_path_factory.mktemp("cluster"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(security, "CHECK_INTERVAL_MS", 100)
        with made.start():
            made.wait_until_healthy()
            yield made


def test_records_are_replicated(cluster: TlsCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("replicated", 6, 3)])["replicated"].result(20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(600):
        producer.produce("replicated", str(number).encode() * 100, partition=number % 6)
    assert producer.flush(30) == 0
    cluster.wait_until_healthy()


def test_transactions_and_groups(cluster: TlsCluster) -> None:
    """Markers, coordinators and forwarded requests go between brokers."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(30):
        producer.produce("transactional", str(number).encode())
    producer.commit_transaction(30)
    configs = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**configs, "isolation.level": "read_committed"})
    consumer.subscribe(["transactional"])
    try:
        assert len(consumer.consume(30, timeout=30)) == 30
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def test_certificates_are_renewed_under_load(cluster: TlsCluster, caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    with caplog.at_level(logging.INFO, "odradek"):
        for node_id in NODES:
            cluster.renew(node_id)
            for number in range(20):
                producer.produce("replicated", str(number).encode(), partition=number % 6)
            assert producer.flush(20) == 0
        deadline = time.monotonic() + 10
        # Each node has two listeners with the same files.
        while sum("Applied new key material" in text for text in caplog.messages) < 2 * len(NODES):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    cluster.wait_until_healthy()
