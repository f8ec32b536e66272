"""A running cluster is secured step by step, as the guide says, and then gets another authority and other passwords.

Clients write and read all the time: every record is verified, and the time without acknowledgements is measured.
"""

from collections.abc import Callable
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

from odradek.client.admin import Admin
from tests.certificates import Authority
from tests.cluster.migrating_cluster import (
    ADMIN,
    ADMIN_PASSWORD,
    CONTROLLER,
    NODE_PASSWORDS,
    PLAINTEXT,
    MigratingCluster,
    MigratingKafka,
)
from tests.cluster.real_cluster import roles_of, wait_for
from tests.cluster.verified_load import VerifiedLoad

TOPIC, PARTITIONS, GROUP = "orders", 3, "readers"
USER, PASSWORD, NEXT_PASSWORD = "app", "app-secret", "next-secret"
GAP_S_MAX = 2.0
RESPONSE_S_MAX = 20.0
COMBINED = roles_of(combined=(1, 2, 3))
SEPARATE = roles_of(controllers=(1, 2, 3), brokers=(4, 5, 6))
BOTH_VOTERS = pytest.mark.parametrize("dynamic_voters", [False, True], ids=["static voters", "dynamic voters"])


class Migration:
    def __init__(self, cluster: MigratingCluster, load: VerifiedLoad) -> None:
        self.cluster, self.load = cluster, load

    def roll(self, heading: str, *, block: int | None = None) -> None:
        def on_restart(node_id: int) -> None:
            self.load.begin_step(f"{heading}{'' if block is None else f' ({block + 1})'}, node {node_id}")

        self.cluster.apply(heading, block=block, on_restart=on_restart)
        self.load.wait_for_progress()

    def new_admin(self) -> AdminClient:
        """As User:admin, or without a login before there are users."""
        plain = {"bootstrap.servers": self.cluster.bootstrap}
        return AdminClient(plain if not self.cluster.security.sasl else self._admin_settings)

    @property
    def _admin_settings(self) -> dict[str, str]:
        return self.cluster.client_settings(ADMIN, ADMIN_PASSWORD)

    def put_user(self, name: str, password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter(UserScramCredentialUpsertion(name, info, password.encode()))

    def remove_user(self, name: str) -> None:
        self._alter(UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))

    def _alter(self, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        admin = self.new_admin()
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(RESPONSE_S_MAX)

    def add_acls(self) -> None:
        wanted = [
            (ResourceType.TOPIC, TOPIC, (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)),
            (ResourceType.GROUP, GROUP, (AclOperation.READ,)),
        ]
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operations in wanted
            for operation in operations
        ]
        admin = self.new_admin()
        for future in admin.create_acls(bindings).values():
            future.result(RESPONSE_S_MAX)

    # The guide

    def secure(self) -> None:
        self.roll("Step 1")
        self.load.begin_step("Step 2, users and clients")
        for name, password in ((ADMIN, ADMIN_PASSWORD), ("broker", NODE_PASSWORDS["broker"]), (USER, PASSWORD)):
            self.put_user(name, password)
        self.load.replace_clients(self.cluster.client_settings(USER, PASSWORD))
        self.cluster.use_secure_clients()
        self.cluster.wait_until_in_sync()
        self.load.wait_for_progress()
        self.roll("Step 3")
        self.roll("Step 4")
        self.roll("Step 5")
        self.load.begin_step("Step 5, ACLs")
        self.add_acls()
        self.load.wait_for_progress()
        self.roll("Step 6")

    def replace_authority(self) -> None:
        cluster, following = self.cluster, Authority("Next CA")
        self.load.begin_step("Replace the authority, trust both")
        applied = self._applied_key_material()
        cluster.trust(cluster.authority, following)
        self._wait_until_applied(applied, "trust stores")
        self.load.replace_clients(cluster.client_settings(USER, PASSWORD))
        self.load.begin_step("Replace the authority, certificates")
        applied = self._applied_key_material()
        cluster.issue(following)
        self._wait_until_applied(applied, "certificates")
        self.load.begin_step("Replace the authority, trust the next one only")
        applied = self._applied_key_material()
        cluster.trust(following)
        self._wait_until_applied(applied, "trust stores")
        self.load.replace_clients(cluster.client_settings(USER, PASSWORD))
        self.load.wait_for_progress()

    def replace_passwords(self) -> None:
        self.load.begin_step("Replace passwords, client")
        self.put_user(USER, NEXT_PASSWORD)
        self.load.set_password(USER, NEXT_PASSWORD)
        self.load.wait_for_progress()
        self.put_user("broker2", NODE_PASSWORDS["broker2"])
        for block in range(3):
            self.roll("Replace passwords", block=block)
        self.remove_user("broker")
        self.cluster.wait_until_in_sync()

    def _applied_key_material(self) -> dict[int, int]:
        return {
            number: node.output.count("Applied new key material: listener=")
            for number, node in self.cluster.nodes.items()
        }

    def _wait_until_applied(self, before: dict[int, int], what: str) -> None:
        """Each node applies them to each of its listeners."""
        roles = {number: len(node.roles) for number, node in self.cluster.nodes.items()}

        def is_applied() -> bool:
            now = self._applied_key_material()
            return all(now[number] >= before[number] + (3 if roles[number] == 2 else 1) for number in now)

        wait_for(f"new {what} on all nodes", is_applied)


@pytest.mark.tier("proof")
@pytest.mark.timeout(900)
@BOTH_VOTERS
@pytest.mark.parametrize("roles", [COMBINED, SEPARATE], ids=["combined", "separate"])
def test_a_running_cluster_is_secured_and_its_secrets_are_replaced(
    roles: dict[int, tuple[str, ...]], dynamic_voters: bool, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    cluster = MigratingCluster(tmp_path, roles, dynamic_voters=dynamic_voters)
    try:
        cluster.start()
        with cluster.client() as client:
            Admin(client).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        with VerifiedLoad(TOPIC, PARTITIONS, {"bootstrap.servers": cluster.bootstrap}, group=GROUP) as load:
            load.wait_for_progress()
            migration = Migration(cluster, load)
            migration.secure()
            for node in cluster.nodes.values():
                assert not node.listens_on(PLAINTEXT)
                assert not node.listens_on(CONTROLLER)
            migration.replace_authority()
            migration.replace_passwords()
            load.finish()
            gaps = load.longest_gaps()
        kind = "dynamic" if dynamic_voters else "static"
        measured(
            f"{len(roles)} nodes, {kind} voters, {sum(load.sent)} records, longest gaps between acknowledgements:\n  "
            + "\n  ".join(map(str, gaps[:6]))
        )
        for node in cluster.nodes.values():
            assert "Traceback" not in node.output
            assert not any(password in node.output for password in (*NODE_PASSWORDS.values(), PASSWORD, ADMIN_PASSWORD))
        assert max(gap.own_s for gap in gaps) <= GAP_S_MAX, gaps[:6]
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        cluster.remove()


@pytest.mark.kafka
@pytest.mark.reference
@pytest.mark.tier("proof")
@pytest.mark.timeout(1800)
@BOTH_VOTERS
def test_apache_kafka_is_secured_by_the_same_steps(
    apache_kafka_libs: Path, dynamic_voters: bool, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    cluster = MigratingCluster(
        tmp_path, COMBINED, dynamic_voters=dynamic_voters, new_member=partial(MigratingKafka, apache_kafka_libs)
    )
    try:
        cluster.start()
        with cluster.client() as client:
            Admin(client).create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        with VerifiedLoad(TOPIC, PARTITIONS, {"bootstrap.servers": cluster.bootstrap}, group=GROUP) as load:
            load.wait_for_progress()
            migration = Migration(cluster, load)
            try:
                migration.secure()
            finally:
                measured(
                    f"Apache Kafka, dynamic voters: {dynamic_voters}, {sum(load.sent)} records, longest gaps:\n  "
                    + "\n  ".join(map(str, load.longest_gaps()[:8]))
                )
            load.finish()
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        cluster.remove()
