"""A real Kafka cluster for the length of a test, on free ports and in a directory of its own, and ways to harm it.

Whether its nodes live in threads or in processes is the members' matter. What only one kind needs, and what can wait
until the processes are on their way, is imported there: the time until a cluster serves is mostly imports.
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
from odradek.local.topology import Topology
from odradek.testing.circumstances import Circumstances
from odradek.testing.errors import ClusterError
from odradek.testing.member import Member
from odradek.testing.reserved_ports import ReservedPorts

if TYPE_CHECKING:
    from odradek.config.node_config import NodeConfig

SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.01


class Cluster:
    """`with Cluster() as cluster:` or `async with Cluster() as cluster:`. Not for use by several threads at once.

    Nodes are numbered from 1; controllers that are nothing else come first. Without them the brokers, or the first
    three, are controllers too. `properties` are Kafka's, of `server.properties`, for every node.
    """

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 0,
        *,
        processes: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if brokers < 1 or controllers < 0:
            raise ValueError("a cluster has at least one broker, and no negative number of controllers")
        self._topology: Final = Topology.new(brokers, controllers or None)
        self._in_processes: Final = processes
        self._properties: Final = dict(properties or {})
        self._directory: Path | None = None
        self._ports: ReservedPorts | None = None
        self._circumstances: dict[int, Circumstances] = {}
        self._members: dict[int, Member] = {}
        self._configs: dict[int, NodeConfig] = {}

    # Life

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._end)

    def _start(self) -> None:
        if self._directory is not None:
            raise ClusterError("the cluster is running already")
        topology = self._topology
        self._directory = Path(tempfile.mkdtemp(prefix="odradek-"))
        self._ports = ReservedPorts(len(topology.brokers) + len(topology.controllers))
        self._members = {number: self._new_member(number, self._directory) for number in topology.roles}
        for member in self._members.values():
            member.prepare()
        from odradek.testing.setup import set_up

        self._configs = set_up(self._directory, topology, self._ports.numbers, self._properties)
        node_at = {listener.port: number for number, config in self._configs.items() for listener in config.listeners}
        self._circumstances = {number: Circumstances(node_at=node_at) for number in self._members}
        for number in self._members:
            self._begin(number)
        for member in self._members.values():
            member.wait_until_serving(SECONDS_MAX)
        self.wait_until_healthy()

    def _new_member(self, number: int, directory: Path) -> Member:
        if self._in_processes:
            from odradek.testing.process_member import ProcessMember

            return ProcessMember(number, directory, self._properties)
        from odradek.testing.thread_member import ThreadMember

        return ThreadMember(number)

    def _begin(self, number: int) -> None:
        self._members[number].begin(self._configs[number], self._circumstances[number])

    def _end(self) -> None:
        """Nobody will read what a clean stop would write."""
        for member in self._members.values():
            member.kill()
        self._members.clear()
        if self._ports is not None:
            self._ports.release()
        if self._directory is not None:
            shutil.rmtree(self._directory)
        self._ports = self._directory = None

    # Asking

    @property
    def bootstrap_servers(self) -> str:
        """Of all brokers, also of those that are down: they keep their addresses."""
        return ",".join(str(self._address(number)) for number in self.brokers)

    @property
    def brokers(self) -> tuple[int, ...]:
        return self._topology.brokers

    @property
    def controllers(self) -> tuple[int, ...]:
        return self._topology.controllers

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads the partition, by the newest word of those that are running."""
        from odradek.testing.health import leader_of

        return leader_of(map(self._address, self._awake_brokers()), topic, partition)

    def wait_until_healthy(self, seconds_max: float = SECONDS_MAX) -> None:
        """Until all brokers that are neither down nor paused serve, know each other and no others, and every replica
        on them is in sync. Raises ClusterError, at once if a node has ended that nobody asked to.
        """
        from odradek.testing.health import what_is_missing

        deadline = time.monotonic() + seconds_max
        while missing := what_is_missing({number: self._address(number) for number in self._awake_brokers()}):
            self._check_ends()
            if time.monotonic() > deadline:
                raise ClusterError(f"not healthy after {seconds_max:g} s: {missing}")
            time.sleep(_POLL_SECONDS)
        self._check_ends()

    def _check_ends(self) -> None:
        for member in self._members.values():
            if member.end:
                raise ClusterError(f"node {member.node_id} has ended: {member.end}")

    def _awake_brokers(self) -> list[int]:
        return [one for one in self.brokers if self._members[one].is_running and not self._members[one].is_paused]

    def _address(self, number: int) -> Address:
        listener = self._configs[number].advertised_listeners[0]
        return Address(listener.host, listener.port)

    # Harming

    def kill(self, node: int) -> None:
        """As kill -9 does: nothing is flushed and nobody is told."""
        self._running(node).kill()

    def restart(self, node: int) -> None:
        """Cleanly if it is running; else it is started again, on what it left. Returns once it serves."""
        member = self._member(node)
        if member.is_running:
            if member.is_paused:
                member.resume()
            member.stop()
        self._begin(node)
        member.wait_until_serving(SECONDS_MAX)

    def pause(self, node: int) -> None:
        """It does nothing any more, while its connections stand: a process that the system has no time for."""
        self._running(node).pause()

    def resume(self, node: int) -> None:
        self._running(node).resume()

    def partition(self, *sides: Collection[int]) -> None:
        """From now on nodes of different sides do not hear of each other, and are not told why; clients reach all.

        A later one takes its place, and `heal` ends it.
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
        """From now on nothing that takes room can be written; `free_disk` ends it."""
        self._change(node, disk_is_full=True)

    def free_disk(self, node: int) -> None:
        self._change(node, disk_is_full=False)

    def slow_disk(self, node: int, delay_ms: float = 50.0) -> None:
        """From now on every write, and every read that has to wait for the disk, takes so much longer. 0 ends it."""
        self._change(node, disk_delay_ms=delay_ms)

    def _change(self, node: int, **changes: Any) -> None:
        member = self._member(node)
        self._circumstances[node] = replace(self._circumstances[node], **changes)
        member.live_with(self._circumstances[node])

    def _member(self, node: int) -> Member:
        if not self._members:
            raise ClusterError("the cluster is not running: use it in a `with` block")
        if node not in self._members:
            raise ClusterError(f"there is no node {node}: there are {sorted(self._members)}")
        return self._members[node]

    def _running(self, node: int) -> Member:
        member = self._member(node)
        if not member.is_running:
            raise ClusterError(f"node {node} is not running" + (f": {member.end}" if member.end else ""))
        return member
