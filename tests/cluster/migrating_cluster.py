"""A cluster that is secured while it runs, with the configs of `docs/how-to/secure-a-running-cluster.md`.

A step of the guide changes the configs of all nodes, which are then restarted one after the other.
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from odradek.base.errors import KafkaError
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.security import NOTHING, Sasl, Security, Tls
from odradek.testing.health import find_problem
from tests.certificates import Authority
from tests.cluster.real_cluster import (
    REPLICATED_COORDINATORS,
    KafkaMember,
    Member,
    OdradekMember,
    RealCluster,
    wait_for,
)
from tests.node_process import free_ports

GUIDE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "secure-a-running-cluster.md"
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
NODE_PASSWORDS: Final = {name: f"{name}-secret" for name in ("broker", "broker2", "controller", "controller2")}
PLAINTEXT, CONTROLLER, CLIENT, BROKER, SECURE_CONTROLLER = 9092, 9093, 9094, 9095, 9096
"""The ports of the guide."""
STEPS: Final = ("Step 1", "Step 3", "Step 4", "Step 5", "Step 6")
"""The headings of the guide with configs of nodes."""
PASSWORDS: Final = "Replace passwords"
MECHANISM: Final = "SCRAM-SHA-512"
VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_LISTENER_KEYS: Final = ("listeners", "advertised.listeners")
_HOST: Final = r"kafka-([a-c])\.example\.com"
_ROLE_OF: Final = {"CONTROLLER": "controller", "SECURE_CONTROLLER": "controller"}

Configs = Mapping[str, str]


def configs_of_guide(heading: str) -> list[dict[str, str]]:
    """The blocks of properties below a heading, in their order."""
    section = re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)
    (text,) = [one for one in section if one.startswith(heading)]
    blocks = re.findall(r"^ *```properties\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    lines = ([line.strip() for line in block.splitlines() if line.strip()] for block in blocks)
    return [dict(line.split("=", 1) for line in block) for block in lines]


class MigratingMember(Member):
    """A node of either product."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        ports = free_ports(3)
        self.secure_ports: Final = dict(zip((CLIENT, BROKER, SECURE_CONTROLLER), ports, strict=True))
        self.configs: dict[str, str] = {}
        self.security: Security = NOTHING
        """Of the test's own connections: with it, they use the secure listeners."""

    def port_of(self, documented: int) -> int:
        return {PLAINTEXT: self.port, CONTROLLER: self.controller_port, **self.secure_ports}[documented]

    @property
    def address(self) -> Address:
        if not self.is_broker:
            return super().address
        return Address(self.host, self.port_of(PLAINTEXT if self.security is NOTHING else CLIENT))

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    @property
    def key_store(self) -> Path:
        return self.directory / "node.pem"

    @property
    def trust_store(self) -> Path:
        return self.directory / "ca.pem"

    def is_ready(self) -> bool:
        if not self.is_broker:
            return self.listens_on(CONTROLLER) or self.listens_on(SECURE_CONTROLLER)
        try:
            with Cluster([self.address], security=self.security, timeout_s=2.0) as client:
                return bool(client.layout().brokers)
        except (ClientError, KafkaError):
            return False

    def listens_on(self, documented: int) -> bool:
        try:
            socket.create_connection((self.host, self.port_of(documented)), timeout=2).close()
        except OSError:
            return False
        return True

    def terminate(self) -> None:
        assert self.process is not None, "the node was not started"
        self.process.terminate()

    def server_properties(self) -> dict[str, str]:
        return {**super().server_properties(), **self.configs}


class MigratingOdradek(MigratingMember, OdradekMember):
    pass


class MigratingKafka(MigratingMember, KafkaMember):
    pass


class MigratingCluster(RealCluster):
    nodes: dict[int, MigratingMember]  # type: ignore[assignment]

    def __init__(
        self,
        directory: Path,
        roles: Mapping[int, Sequence[str]],
        *,
        new_member: Callable[[Path], Member] = MigratingOdradek,
        dynamic_voters: bool = False,
        properties: Mapping[str, str] = MappingProxyType(REPLICATED_COORDINATORS),
    ) -> None:
        super().__init__(
            directory,
            roles,
            new_member=new_member,
            dynamic_voters=dynamic_voters,
            properties=properties,
        )
        self.dynamic_voters: Final = dynamic_voters
        self._former: dict[int, dict[str, str]] = {}
        self.authority = Authority("First CA")
        first, dynamic = configs_of_guide("Before you start")
        self.change(first | dynamic)

    def start(self) -> None:
        self.trust(self.authority)
        self.issue(self.authority)
        self.write_secrets()
        super().start()

    def write_secrets(self) -> None:
        text = "".join(f"{user}={password}\n" for user, password in NODE_PASSWORDS.items())
        for node in self.nodes.values():
            node.directory.mkdir(parents=True, exist_ok=True)
            (node.directory / "secrets.properties").write_text(text)

    def secure_before_start(self, *users: Sasl) -> None:
        """All steps of the guide at once. The users are created when the directories are formatted."""
        for step in STEPS:
            for block in configs_of_guide(step):
                self.change(block)
        nodes = Sasl(mechanism=MECHANISM, username="broker", password=NODE_PASSWORDS["broker"])
        admin = Sasl(mechanism=MECHANISM, username=ADMIN, password=ADMIN_PASSWORD)
        for node in self.nodes.values():
            for one in (nodes, admin, *users):
                credential = f"{one.mechanism}=[name={one.username},password={one.password}]"
                node.format_options = (*node.format_options, "--add-scram", credential)
        self.use_secure_clients()

    # Certificates

    def trust(self, *authorities: Authority) -> None:
        """Of nodes and of clients."""
        text = b"".join(one.pem for one in authorities)
        for path in (self.clients_trust_store, *(node.trust_store for node in self.nodes.values())):
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, text)

    def issue(self, authority: Authority) -> None:
        for node in self.nodes.values():
            authority.issue(f"node-{node.node_id}").save(node.key_store)

    @property
    def clients_trust_store(self) -> Path:
        return self.directory / "clients-ca.pem"

    # Clients

    def client_settings(self, user: str, password: str) -> dict[str, Any]:
        """Of confluent-kafka, for the CLIENT listener."""
        return {
            "bootstrap.servers": ",".join(f"{node.host}:{node.port_of(CLIENT)}" for node in self.brokers),  # type: ignore[attr-defined]
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.clients_trust_store),
        }

    def use_secure_clients(self) -> None:
        """From now on, the test's own connections use the CLIENT listener."""
        self.security = Security(
            tls=Tls(authorities_file=str(self.clients_trust_store)),
            sasl=Sasl(mechanism=MECHANISM, username=ADMIN, password=ADMIN_PASSWORD),
        )
        for node in self.nodes.values():
            node.security = self.security

    # Steps

    def apply(
        self, heading: str, *, block: int | None = None, on_restart: Callable[[int], None] = lambda _: None
    ) -> None:
        """Changes the configs as the guide says, and restarts node by node."""
        blocks = configs_of_guide(heading)
        chosen = blocks if block is None else blocks[block : block + 1]
        self._former = {node_id: dict(node.configs) for node_id, node in self.nodes.items()}
        self.change({key: value for one in chosen for key, value in one.items()})
        self._restart_each(on_restart)

    def roll_back(self, on_restart: Callable[[int], None] = lambda _: None) -> None:
        """Restores the configs before the last step, and restarts node by node."""
        for node_id, configs in self._former.items():
            self.nodes[node_id].configs = configs
        self._restart_each(on_restart)

    def restart_as_a_whole(self) -> None:
        for node in self.nodes.values():
            node.terminate()
        for node in self.nodes.values():
            node.stop()
        for node in self.nodes.values():
            node.spawn()
        for node in self.nodes.values():
            node.wait_until_ready()
        self.wait_until_in_sync()

    def _restart_each(self, on_restart: Callable[[int], None]) -> None:
        for node_id in self._restart_order():
            on_restart(node_id)
            self.nodes[node_id].restart()
            self.wait_until_in_sync()

    def wait_until_in_sync(self) -> None:
        self.wait_until_whole()
        addresses = {node.node_id: node.address for node in self.nodes.values() if node.is_broker}
        wait_for("all replicas in sync", lambda: not find_problem(addresses, self.security))

    def _restart_order(self) -> list[int]:
        """Controllers first, and the active one last of them."""
        active = self.active_controller().node_id
        return sorted(self.nodes, key=lambda number: (not self.nodes[number].is_controller, number == active, number))

    def change(self, configs: Configs) -> None:
        """Of all nodes, as they will be after their next start."""
        for node in self.nodes.values():
            own = {key: self._adapt(node, key, value) for key, value in configs.items()}
            node.configs |= {key: value for key, value in own.items() if key not in ("node.id", "process.roles")}
            node.configs.pop(VOTERS if self.dynamic_voters else BOOTSTRAP, None)

    def _adapt(self, node: MigratingMember, key: str, value: str) -> str:
        """The guide's hosts, ports and files as those of this node."""
        if key in _LISTENER_KEYS:
            value = ",".join(one for one in value.split(",") if _ROLE_OF.get(one.split(":")[0], "broker") in node.roles)
            value = re.sub(r"//[^:,]*:(\d+)", lambda at: f"//{node.host}:{node.port_of(int(at[1]))}", value)
        if key in (VOTERS, BOOTSTRAP):
            value = ",".join(one for one in value.split(",") if self._is_controller(one))
        if key not in _LISTENER_KEYS:
            value = re.sub(rf"{_HOST}:(\d+)", self._address, value)
        return value.replace("/etc/kafka", str(node.directory))

    def _is_controller(self, text: str) -> bool:
        node = self.nodes.get(_named(text))
        return node is not None and node.is_controller

    def _address(self, found: re.Match[str]) -> str:
        node = self.nodes[_named(found[0])]
        return f"{node.host}:{node.port_of(int(found[2]))}"


def _named(text: str) -> int:
    """The ID of the node with the guide's host in the text."""
    found = re.search(_HOST, text)
    assert found is not None
    return "abc".index(found[1]) + 1


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)
