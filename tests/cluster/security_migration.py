"""Executes `docs/how-to/secure-a-running-cluster.md` while clients write, read and change metadata all the time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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
from tests.cluster.gaps import Gaps
from tests.cluster.metadata_changes import SERIES as METADATA
from tests.cluster.metadata_changes import MetadataChanges
from tests.cluster.migrating_cluster import (
    ADMIN,
    ADMIN_PASSWORD,
    CONTROLLER,
    NODE_PASSWORDS,
    PASSWORDS,
    SECURE_CONTROLLER,
    MigratingCluster,
)
from tests.cluster.real_cluster import wait_for
from tests.cluster.verified_load import VerifiedLoad

TOPIC: Final = "orders"
PARTITIONS: Final = 3
GROUP: Final = "readers"
CHANGED_TOPIC: Final = "settings"
USER, PASSWORD, NEXT_PASSWORD = "app", "app-secret", "next-secret"
SECRETS: Final = (*NODE_PASSWORDS.values(), ADMIN_PASSWORD, PASSWORD, NEXT_PASSWORD)
GAP_S_MAX: Final = 2.0
RESPONSE_S_MAX: Final = 20.0
GAPS_SHOWN: Final = 4


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
            both = {node.node_id: {node.port_of(CONTROLLER), node.port_of(SECURE_CONTROLLER)} for node in nodes}
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
            self._roll(PASSWORDS, block=block)
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
        plain: dict[str, Any] = {"bootstrap.servers": self.cluster.bootstrap}
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
    directory: Path, measured: Callable[[str], None], roles: Mapping[int, Sequence[str]], **options: Any
) -> Iterator[Migration]:
    """A PLAINTEXT cluster and its clients. At the end, verifies all records and changes."""
    cluster, gaps = MigratingCluster(directory, roles, **options), Gaps()
    nodes, running = cluster.nodes.values(), None
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
        kind = "dynamic" if cluster.dynamic_voters else "static"
        if running is not None:
            count, sent = running.load.renumbered_count, sum(running.load.sent)
            measured(
                f"{len(roles)} nodes, {kind} voters: {sent} records, {count} of them may repeat because of the client"
            )
        for series in ("partition", METADATA):
            slowest = "\n  ".join(map(str, gaps.longest(series)[:GAPS_SHOWN]))
            measured(f"{len(roles)} nodes, {kind} voters: longest gaps of {series}:\n  {slowest}")
        cluster.remove()


def voter_ports(cluster: MigratingCluster) -> dict[int, set[int]]:
    """Of the voters' listeners, which Apache Kafka lists in any order."""
    return {voter.id: {one.port for one in voter.endpoints} for voter in cluster.quorum_status().voters}


def assert_gaps_are_short(gaps: Gaps, series: str = "") -> None:
    """Without the time in which processes waited for this computer."""
    longest = max(gaps.longest(series), key=lambda gap: gap.own_s)
    assert longest.own_s <= GAP_S_MAX, str(longest)
