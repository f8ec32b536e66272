"""A real Kafka cluster for the duration of a test, on free ports and in a temporary directory, with fault injection.

The members run nodes in threads or in processes. Modules that only one kind needs, or that can wait until the
processes have started, are imported late, because imports are most of the start-up time.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from odradek.client.address import Address
from odradek.client.security import NOTHING, Security
from odradek.local.topology import Topology
from odradek.testing.errors import ClusterError
from odradek.testing.faults import Faults
from odradek.testing.member import Member
from odradek.testing.reserved_ports import ReservedPorts

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig
    from odradek.local.security_files import SecurityFiles

SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.01


class Cluster:
    """`with Cluster() as cluster:` or `async with Cluster() as cluster:`. Not thread-safe.

    Nodes are numbered from 1, dedicated controllers first. Without dedicated controllers, the first broker, or the
    first three of three or more, are also controllers. `properties` are the `server.properties` of every node.
    With `secure`, the cluster is one of `odradek up --secure`, and clients connect with `client_properties`.
    """

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 0,
        *,
        processes: bool = False,
        secure: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if brokers < 1 or controllers < 0:
            raise ValueError("brokers must be at least 1, and controllers must not be negative")
        self._topology: Final = Topology.new(brokers, controllers or None)
        self._in_processes: Final = processes
        self._is_secure: Final = secure
        self._security: Security = NOTHING
        self._properties: Final = dict(properties or {})
        self._directory: Path | None = None
        self._ports: ReservedPorts | None = None
        self._faults: dict[int, Faults] = {}
        self._members: dict[int, Member] = {}
        self._configs: dict[int, NodeConfig] = {}

    # Start and end

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close)

    def _start(self) -> None:
        if self._directory is not None:
            raise ClusterError("the cluster is already running")
        topology = self._topology
        self._directory = Path(tempfile.mkdtemp(prefix="odradek-"))
        self._ports = ReservedPorts(len(topology.brokers) * (2 if self._is_secure else 1) + len(topology.controllers))
        self._members = {number: self._new_member(number, self._directory) for number in topology.roles}
        for member in self._members.values():
            member.prepare()
        from odradek.testing.setup import set_up

        files = self._security_files() if self._is_secure else None
        self._configs = set_up(self._directory, topology, self._ports.numbers, self._properties, files)
        if files is not None:
            self._security = files.client_security()
        node_at = {listener.port: number for number, config in self._configs.items() for listener in config.listeners}
        self._faults = {number: Faults(node_at=node_at) for number in self._members}
        for number in self._members:
            self._start_node(number)
        for member in self._members.values():
            member.wait_until_serving(SECONDS_MAX)
        self.wait_until_healthy()

    def _new_member(self, number: int, directory: Path) -> Member:
        if self._in_processes:
            from odradek.testing.process_member import ProcessMember

            return ProcessMember(number, directory, self._properties)
        from odradek.testing.thread_member import ThreadMember

        return ThreadMember(number)

    def _start_node(self, number: int) -> None:
        self._members[number].start(self._configs[number], self._faults[number])

    def _close(self) -> None:
        """Kill the nodes: a clean stop would only write data that is deleted anyway."""
        for member in self._members.values():
            member.kill()
        self._members.clear()
        if self._ports is not None:
            self._ports.release()
        if self._directory is not None:
            shutil.rmtree(self._directory)
        self._ports = self._directory = None

    def _security_files(self) -> "SecurityFiles":
        from odradek.local.security_files import SecurityFiles

        if self._directory is None:
            raise ClusterError("the cluster is not running; use it in a `with` block")
        return SecurityFiles(self._directory)

    # State

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, including stopped ones, which keep their addresses."""
        return ",".join(str(self._address(number)) for number in self.brokers)

    @property
    def client_properties(self) -> Path:
        """The properties file of the administrator in a secure cluster: for `--command-config` and Kafka's tools."""
        if not self._is_secure:
            raise ClusterError("the cluster is not secure; create it with secure=True")
        return self._security_files().client_properties

    @property
    def brokers(self) -> tuple[int, ...]:
        return self._topology.brokers

    @property
    def controllers(self) -> tuple[int, ...]:
        return self._topology.controllers

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of the partition, according to the running broker with the newest leader epoch."""
        from odradek.testing.health import leader_of

        return leader_of(map(self._address, self._awake_brokers()), topic, partition, self._security)

    def wait_until_healthy(self, seconds_max: float = SECONDS_MAX) -> None:
        """Wait until all running, unpaused brokers serve requests, know exactly each other, and have all their
        replicas in sync. Raises ClusterError, at once if a node has exited on its own.
        """
        from odradek.testing.health import find_problem

        deadline = time.monotonic() + seconds_max
        while problem := find_problem(
            {number: self._address(number) for number in self._awake_brokers()}, self._security
        ):
            self._check_exits()
            if time.monotonic() > deadline:
                raise ClusterError(f"not healthy after {seconds_max:g} s: {problem}")
            time.sleep(_POLL_SECONDS)
        self._check_exits()

    def _check_exits(self) -> None:
        for member in self._members.values():
            if member.exit_reason:
                raise ClusterError(f"node {member.node_id} has exited: {member.exit_reason}")

    def _awake_brokers(self) -> list[int]:
        return [one for one in self.brokers if self._members[one].is_running and not self._members[one].is_paused]

    def _address(self, number: int) -> Address:
        listener = self._configs[number].advertised_listeners[0]
        return Address(listener.host, listener.port)

    # Faults

    def kill(self, node: int) -> None:
        """Kill the node as `kill -9` does: without flushing and without a controlled shutdown."""
        self._running_member(node).kill()

    def restart(self, node: int) -> None:
        """Stop the node cleanly if it is running, and start it on its data. Returns once it serves requests."""
        member = self._member(node)
        if member.is_running:
            if member.is_paused:
                member.resume()
            member.stop()
        self._start_node(node)
        member.wait_until_serving(SECONDS_MAX)

    def pause(self, node: int) -> None:
        """Freeze the node: its connections stay open, but it does nothing, like a stalled process."""
        self._running_member(node).pause()

    def resume(self, node: int) -> None:
        self._running_member(node).resume()

    def partition(self, *sides: Collection[int]) -> None:
        """Drop all traffic between nodes of different sides. Clients can still reach all nodes.

        A later call replaces it, and `heal` ends it.
        """
        side_of = {node: number for number, side in enumerate(sides) for node in side}
        for node in side_of:
            self._member(node)
        for node in self._members:
            self._change(node, side_of=side_of)

    def heal(self) -> None:
        for node in self._members:
            self._change(node, side_of={})

    def fill_disk(self, node: int) -> None:
        """Make all writes that need disk space fail; `free_disk` ends it."""
        self._change(node, disk_is_full=True)

    def free_disk(self, node: int) -> None:
        self._change(node, disk_is_full=False)

    def slow_disk(self, node: int, delay_ms: float = 50.0) -> None:
        """Delay every write, and every read that waits for the disk, by `delay_ms`. 0 ends it."""
        self._change(node, disk_delay_ms=delay_ms)

    def _change(self, node: int, **changes: Any) -> None:
        member = self._member(node)
        self._faults[node] = replace(self._faults[node], **changes)
        member.apply_faults(self._faults[node])

    def _member(self, node: int) -> Member:
        if not self._members:
            raise ClusterError("the cluster is not running; use it in a `with` block")
        if node not in self._members:
            raise ClusterError(f"node {node} does not exist; the nodes are {sorted(self._members)}")
        return self._members[node]

    def _running_member(self, node: int) -> Member:
        member = self._member(node)
        if not member.is_running:
            reason = f": {member.exit_reason}" if member.exit_reason else ""
            raise ClusterError(f"node {node} is not running{reason}")
        return member
