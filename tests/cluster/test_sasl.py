"""Three nodes whose brokers and controllers authenticate to each other with SASL."""

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from odradek.client.admin import Admin
from tests.cluster.real_cluster import COMBINED, OdradekMember, RealCluster, wait_for
from tests.node_process import free_ports
from tests.wire.secured_broker import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE

USER, PASSWORD = "node", "node-secret"
SESSION_MS = 2000
TIMEOUT_S = 20.0
PLAIN_LOGIN = f'{PLAIN_MODULE} required username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
LOGINS = {
    "PLAIN": PLAIN_LOGIN,
    "SCRAM-SHA-512": f'{SCRAM_MODULE} required username="{USER}" password="{PASSWORD}";',
    "OAUTHBEARER": f"{OAUTH_MODULE} required;",
}


class SaslMember(OdradekMember):
    def __init__(self, directory: Path, *, mechanism: str) -> None:
        super().__init__(directory)
        (self.internal_port,) = free_ports(1)
        self.mechanism = mechanism
        if mechanism.startswith("SCRAM"):
            self.format_options = ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")

    def server_properties(self) -> dict[str, str]:
        common = super().server_properties()
        return {
            **common,
            "listeners": f"{common['listeners']},INTERNAL://{self.host}:{self.internal_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.internal.sasl.enabled.mechanisms": self.mechanism,
            f"listener.name.internal.{self.mechanism.lower()}.sasl.jaas.config": LOGINS[self.mechanism],
            "sasl.oauthbearer.jwks.endpoint.url": (self.directory.parent / "keys.json").as_uri(),
            "sasl.oauthbearer.token.endpoint.url": (self.directory.parent / "token").as_uri(),
            "listener.name.controller.plain.sasl.jaas.config": PLAIN_LOGIN,
            "connections.max.reauth.ms": str(SESSION_MS),
            "group.initial.rebalance.delay.ms": "0",
        }


@pytest.fixture(params=["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealCluster]:
    key, now = ECKey.generate_key("P-256", {"kid": "one"}), int(time.time())
    (tmp_path / "keys.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    claims = {"sub": USER, "iat": now, "exp": now + 3600}
    (tmp_path / "token").write_text(jwt.encode({"alg": "ES256", "kid": "one"}, claims, key))
    new_member = partial(SaslMember, mechanism=request.param)
    cluster = RealCluster(tmp_path, dict.fromkeys((1, 2, 3), COMBINED), new_member=new_member)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def replicas_are_equal(cluster: RealCluster, partition: int) -> bool:
    return len({node.log_bytes("orders", partition) for node in cluster.brokers}) == 1


def test_authenticated_nodes_replicate_beyond_their_sessions(cluster: RealCluster) -> None:
    with cluster.client() as client:
        Admin(client).create_topic("orders", partitions=3, replication_factor=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for round_number in range(3):
        for number in range(30):
            producer.produce("orders", f"{round_number}-{number}".encode(), partition=number % 3)
        assert producer.flush(TIMEOUT_S) == 0
        # Longer than a session of the nodes.
        producer.poll(SESSION_MS / 1000)
    for partition in range(3):
        wait_for(f"equal replicas of orders-{partition}", partial(replicas_are_equal, cluster, partition))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: set[bytes] = set()
    try:
        while len(values) < 90:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            values.add(message.value() or b"")
    finally:
        consumer.close()
    for node in cluster.nodes.values():
        assert "session of its authentication has expired" not in node.output
        assert PASSWORD not in node.output
