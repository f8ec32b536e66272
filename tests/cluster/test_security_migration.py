"""A running cluster is secured step by step, as the guide says, and then gets another authority and other passwords.

Clients write, read and change metadata all the time: every record is verified, and the times without responses are
measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from odradek.client.address import Address
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import NotAuthenticated
from odradek.client.quorum import QuorumAdmin
from odradek.client.security import Sasl, Security, Tls
from tests.certificates import Authority
from tests.cluster.gaps import Gaps
from tests.cluster.metadata_changes import SERIES as METADATA
from tests.cluster.metadata_changes import MetadataChanges
from tests.cluster.migrating_cluster import (
    ADMIN,
    ADMIN_PASSWORD,
    CONTROLLER,
    NODE_PASSWORDS,
    PLAINTEXT,
    SECURE_CONTROLLER,
    MigratingCluster,
    MigratingKafka,
)
from tests.cluster.real_cluster import roles_of, wait_for
from tests.cluster.verified_load import VerifiedLoad

TOPIC, PARTITIONS, GROUP = "orders", 3, "readers"
CHANGED_TOPIC = "settings"
USER, PASSWORD, NEXT_PASSWORD = "app", "app-secret", "next-secret"
MECHANISM = "SCRAM-SHA-512"
SECRETS = (*NODE_PASSWORDS.values(), ADMIN_PASSWORD, PASSWORD, NEXT_PASSWORD)
GAP_S_MAX = 2.0
RESPONSE_S_MAX = 20.0
GAPS_SHOWN = 4
COMBINED = roles_of(combined=(1, 2, 3))
SEPARATE = roles_of(controllers=(1, 2, 3), brokers=(4, 5, 6))
ONE_CONTROLLER = roles_of(controllers=(1,), brokers=(4, 5, 6))
BOTH_VOTERS = pytest.mark.parametrize("dynamic_voters", [False, True], ids=["static voters", "dynamic voters"])


class Migration:
    """Executes the guide while the clients run."""

    def __init__(self, cluster: MigratingCluster, load: VerifiedLoad, changes: MetadataChanges, gaps: Gaps) -> None:
        self.cluster, self.load, self.changes, self.gaps = cluster, load, changes, gaps

    def finish(self) -> None:
        """Stops the clients and verifies all records and changes."""
        self.changes.finish()
        self.load.finish()

    # Steps

    def open_listeners(self) -> None:
        """With dynamic voters, the next steps need the endpoints of all voters in the metadata log."""
        self._roll("Step 1")
        if self.cluster.dynamic_voters:
            nodes = [node for node in self.cluster.nodes.values() if node.is_controller]
            both = {node.node_id: [node.port_of(CONTROLLER), node.port_of(SECURE_CONTROLLER)] for node in nodes}
            wait_for("voters with both listeners", lambda: voter_ports(self.cluster) == both)

    def move_clients(self) -> None:
        self.gaps.begin_step("Step 2, users and clients")
        for name, password in ((ADMIN, ADMIN_PASSWORD), ("broker", NODE_PASSWORDS["broker"]), (USER, PASSWORD)):
            self._put_user(name, password)
        self.load.replace_clients(self.cluster.client_settings(USER, PASSWORD))
        self.cluster.use_secure_clients()
        self.cluster.wait_until_in_sync()
        self.load.wait_for_progress()

    def move_brokers(self) -> None:
        self._roll("Step 3")

    def move_controllers(self) -> None:
        self._roll("Step 4")

    def turn_authorizer_on(self) -> None:
        self._roll("Step 5")

    def add_acls(self) -> None:
        self.gaps.begin_step("Step 5, ACLs")
        wanted = [
            (ResourceType.TOPIC, TOPIC, (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)),
            (ResourceType.GROUP, GROUP, (AclOperation.READ,)),
        ]
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operations in wanted
            for operation in operations
        ]
        admin = self._new_admin()
        for future in admin.create_acls(bindings).values():
            future.result(RESPONSE_S_MAX)
        self.load.wait_for_progress()

    def close_plaintext(self) -> None:
        self._roll("Step 6")

    def roll_back(self) -> None:
        self.cluster.roll_back(lambda node_id: self.gaps.begin_step(f"roll back, node {node_id}"))
        self.load.wait_for_progress()

    def secure(self) -> None:
        self.open_listeners()
        self.move_clients()
        self.move_brokers()
        self.move_controllers()
        self.turn_authorizer_on()
        self.add_acls()
        self.close_plaintext()

    def replace_authority(self) -> None:
        cluster, following = self.cluster, Authority("Next CA")
        self._change_key_material("trust both authorities", lambda: cluster.trust(cluster.authority, following))
        self.load.replace_clients(cluster.client_settings(USER, PASSWORD))
        self._change_key_material("new certificates", lambda: cluster.issue(following))
        self._change_key_material("trust the next authority only", lambda: cluster.trust(following))
        self.load.replace_clients(cluster.client_settings(USER, PASSWORD))
        self.load.wait_for_progress()

    def replace_passwords(self) -> None:
        self.gaps.begin_step("Replace passwords, client")
        self._put_user(USER, NEXT_PASSWORD)
        self.load.set_password(USER, NEXT_PASSWORD)
        self.load.wait_for_progress()
        self._put_user("broker2", NODE_PASSWORDS["broker2"])
        for block in range(3):
            self._roll("Replace passwords", block=block)
        self._alter_user(UserScramCredentialDeletion("broker", ScramMechanism.SCRAM_SHA_512))
        self.cluster.wait_until_in_sync()

    # Helpers

    def _roll(self, heading: str, *, block: int | None = None) -> None:
        name = heading if block is None else f"{heading} ({block + 1})"
        begin = lambda node_id: self.gaps.begin_step(f"{name}, node {node_id}")  # noqa: E731
        self.cluster.apply(heading, block=block, on_restart=begin)
        self.load.wait_for_progress()

    def _new_admin(self) -> AdminClient:
        """As User:admin, or without a login before there are users."""
        has_users = self.cluster.security.sasl is not None
        plain = {"bootstrap.servers": self.cluster.bootstrap}
        return AdminClient(self.cluster.client_settings(ADMIN, ADMIN_PASSWORD) if has_users else plain)

    def _put_user(self, name: str, password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter_user(UserScramCredentialUpsertion(name, info, password.encode()))

    def _alter_user(self, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        admin = self._new_admin()
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(RESPONSE_S_MAX)

    def _change_key_material(self, what: str, change: Callable[[], None]) -> None:
        """Waits until each node has applied it to each of its listeners."""
        self.gaps.begin_step(what)
        nodes = self.cluster.nodes.values()
        line = "Applied new key material: listener="
        expected = {node: node.output.count(line) + (3 if len(node.roles) == 2 else 1) for node in nodes}
        change()
        wait_for(f"{what} on all nodes", lambda: all(node.output.count(line) >= expected[node] for node in nodes))


@contextmanager
def migration(
    directory: Path, measured: Callable[[str], None], roles: Mapping[int, Sequence[str]], **options: object
) -> Iterator[Migration]:
    """A PLAINTEXT cluster and its clients. At the end, verifies all records and changes."""
    cluster, gaps = MigratingCluster(directory, roles, **options), Gaps()  # type: ignore[arg-type]
    nodes = cluster.nodes.values()
    try:
        cluster.start()
        with cluster.client() as client:
            Admin(client).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            Admin(client).create_topic(CHANGED_TOPIC, partitions=1, replication_factor=3)
        gaps.start()
        with (
            VerifiedLoad(TOPIC, PARTITIONS, {"bootstrap.servers": cluster.bootstrap}, gaps, group=GROUP) as load,
            MetadataChanges(CHANGED_TOPIC, cluster.client, gaps) as changes,
        ):
            load.wait_for_progress()
            running = Migration(cluster, load, changes, gaps)
            yield running
            running.finish()
        assert not any("Traceback" in node.output for node in nodes)
        assert not any(secret in node.output for node in nodes for secret in SECRETS)
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        gaps.stop()
        for series in ("partition", METADATA):
            slowest = "\n  ".join(map(str, gaps.longest(series)[:GAPS_SHOWN]))
            measured(f"{len(roles)} nodes, {options}: longest gaps of {series}:\n  {slowest}")
        cluster.remove()


def assert_gaps_are_short(gaps: Gaps, series: str = "") -> None:
    longest = max(gaps.longest(series), key=lambda gap: gap.own_s)
    assert longest.own_s <= GAP_S_MAX, str(longest)


def voter_ports(cluster: MigratingCluster) -> dict[int, list[int]]:
    return {voter.id: [one.port for one in voter.endpoints] for voter in cluster.quorum_status().voters}


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
        secure_ports = {node.node_id: [node.port_of(SECURE_CONTROLLER)] for node in nodes if node.is_controller}
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
