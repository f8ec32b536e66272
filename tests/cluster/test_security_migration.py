"""A running cluster is secured step by step, as the guide says, and then gets another authority and other passwords.

Clients write, read and change metadata all the time: every record is verified, and the times without responses are
measured.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import NotAuthenticated
from odradek.client.quorum import QuorumAdmin
from odradek.client.security import Sasl, Security, Tls
from odradek.local.start_node import load_config
from tests.certificates import Authority
from tests.cluster.migrating_cluster import (
    CONTROLLER,
    MECHANISM,
    NODE_PASSWORDS,
    PASSWORDS,
    PLAINTEXT,
    SECURE_CONTROLLER,
    STEPS,
    MigratingCluster,
    MigratingKafka,
    configs_of_guide,
)
from tests.cluster.real_cluster import roles_of, wait_for
from tests.cluster.security_migration import (
    CHANGED_TOPIC,
    PASSWORD,
    RESPONSE_S_MAX,
    TOPIC,
    USER,
    assert_gaps_are_short,
    migration,
    voter_ports,
)
from tests.cluster.verified_load import find_problem

COMBINED = roles_of(combined=(1, 2, 3))
SEPARATE = roles_of(controllers=(1, 2, 3), brokers=(4, 5, 6))
ONE_CONTROLLER = roles_of(controllers=(1,), brokers=(4, 5, 6))
BOTH_VOTERS = pytest.mark.parametrize("dynamic_voters", [False, True], ids=["static voters", "dynamic voters"])


def is_accepted(cluster: MigratingCluster, user: str, password: str, authority: Authority | None = None) -> bool:
    """Whether a client with this login and trust store can connect to a broker."""
    tls = Tls(authorities_file=str(cluster.clients_trust_store))
    if authority is not None:
        tls = Tls(authorities=authority.pem.decode())
    security = Security(tls=tls, sasl=Sasl(mechanism=MECHANISM, username=user, password=password))
    try:
        with Cluster([cluster.brokers[0].address], security=security, timeout_s=RESPONSE_S_MAX) as client:
            client.layout()
    except NotAuthenticated:
        return False
    return True


def is_accepted_by_controller(cluster: MigratingCluster, user: str) -> bool:
    sasl = Sasl(mechanism="PLAIN", username=user, password=NODE_PASSWORDS[user])
    security = Security(tls=Tls(authorities_file=str(cluster.clients_trust_store)), sasl=sasl)
    node = cluster.nodes[1]
    address = Address(node.host, node.port_of(SECURE_CONTROLLER))
    try:
        with Cluster([address], security=security, timeout_s=RESPONSE_S_MAX) as client:
            QuorumAdmin(client).describe()
    except NotAuthenticated:
        return False
    return True


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1, 2, 3], ""),
        ([0, 1, 2, 1, 2, 3], ""),
        ([0, 1, 3], "1 records lost, from 2 on"),
        ([0, 1, 2], "1 records lost, from 3 on"),
        ([0, 1, 2, 0, 3], "1 records repeated, from 0 on"),
        ([0, 2, 1, 3], "records in another order"),
        ([0, 1, 2, -1, 3], "records in another order"),
    ],
)
def test_the_verifier_finds_lost_repeated_and_disordered_records(numbers: list[int], problem: str) -> None:
    assert find_problem(numbers, 4, may_repeat={1, 2}) == problem


@BOTH_VOTERS
@pytest.mark.parametrize("roles", [COMBINED, SEPARATE], ids=["combined", "separate"])
def test_configs_of_each_step_are_accepted_without_warnings(
    roles: dict[int, tuple[str, ...]], dynamic_voters: bool, tmp_path: Path
) -> None:
    """Nothing is started."""
    cluster = MigratingCluster(tmp_path, roles, dynamic_voters=dynamic_voters)
    cluster.write_secrets()
    for heading in (*STEPS, PASSWORDS):
        for block in configs_of_guide(heading):
            cluster.change(block)
            for node in cluster.nodes.values():
                node.config_file.write_text(
                    "".join(f"{key}={value}\n" for key, value in node.server_properties().items())
                )
                assert not load_config(str(node.config_file)).warnings, (heading, node.node_id)


@pytest.mark.tier("proof")
@pytest.mark.timeout(900)
@BOTH_VOTERS
@pytest.mark.parametrize("roles", [COMBINED, SEPARATE, ONE_CONTROLLER], ids=["combined", "separate", "one controller"])
def test_a_running_cluster_is_secured_and_its_secrets_are_replaced(
    roles: dict[int, tuple[str, ...]], dynamic_voters: bool, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    with migration(tmp_path, measured, roles, dynamic_voters=dynamic_voters) as running:
        cluster, nodes = running.cluster, running.cluster.nodes.values()
        running.secure()
        assert not any(node.listens_on(port) for node in nodes for port in (PLAINTEXT, CONTROLLER))
        secure_ports = {node.node_id: {node.port_of(SECURE_CONTROLLER)} for node in nodes if node.is_controller}
        wait_for("voters with their secure listener only", lambda: voter_ports(cluster) == secure_ports)
        hidden = Security(tls=cluster.security.tls, sasl=Sasl(mechanism=MECHANISM, username=USER, password=PASSWORD))
        with Cluster([cluster.brokers[0].address], security=hidden) as client:
            assert client.layout([TOPIC, CHANGED_TOPIC]).topics.keys() == {TOPIC}
        former = cluster.authority
        assert is_accepted(cluster, USER, PASSWORD, former)
        running.replace_authority()
        assert not is_accepted(cluster, USER, PASSWORD, former)
        running.replace_passwords()
        assert not is_accepted(cluster, USER, PASSWORD)
        assert not is_accepted_by_controller(cluster, "controller")
        assert is_accepted_by_controller(cluster, "controller2")
        running.finish()
        cluster.restart_as_a_whole()
        running.load.verify()
    # The only controller cannot be restarted without a gap in changes of metadata.
    assert_gaps_are_short(running.gaps, "partition" if roles == ONE_CONTROLLER else "")


@pytest.mark.tier("proof")
@pytest.mark.timeout(900)
@BOTH_VOTERS
def test_each_step_can_be_rolled_back(dynamic_voters: bool, tmp_path: Path, measured: Callable[[str], None]) -> None:
    with migration(tmp_path, measured, COMBINED, dynamic_voters=dynamic_voters) as running:

        def apply_twice(step: Callable[[], None]) -> None:
            step()
            running.roll_back()
            step()

        apply_twice(running.open_listeners)
        running.move_clients()
        apply_twice(running.move_brokers)
        apply_twice(running.move_controllers)
        apply_twice(running.turn_authorizer_on)
        running.add_acls()
        apply_twice(running.close_plaintext)
    assert_gaps_are_short(running.gaps)


@pytest.mark.kafka
@pytest.mark.reference
@pytest.mark.timeout(1800)
@BOTH_VOTERS
def test_apache_kafka_is_secured_by_the_same_steps(
    apache_kafka_libs: Path, dynamic_voters: bool, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    new_member = partial(MigratingKafka, apache_kafka_libs)
    with migration(tmp_path, measured, COMBINED, dynamic_voters=dynamic_voters, new_member=new_member) as running:
        running.secure()
