"""The real `Node` on a simulated computer, restarted like a service when it exits."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from odradek.base.ports import Pool
from odradek.config.node_config import NodeConfig
from odradek.node.node import Node, StartError
from odradek.node.pool_sizes import pool_sizes
from odradek.node.thread_workers import ThreadWorkers
from odradek.node.worker_programs import load_program
from odradek.quorum.format import FormatRequest, format_directories
from odradek.quorum.initial_controllers import InitialController
from odradek.sim.computer import Computer, Ports
from odradek.sim.layout import PlannedNode
from odradek.sim.metadata_disk import MetadataDisk
from odradek.sim.world import World

CLUSTER_ID: Final = "Zw_8Tq2oRzmHnV1u2f6aWQ"
_RESTART_SECONDS: Final = 0.5
_HANDSHAKE_THREADS: Final = 2


class NodeHost:
    def __init__(self, world: World, planned: PlannedNode) -> None:
        self.world: Final = world
        self.planned: Final = planned
        self.computer: Final[Computer] = world.add_computer(planned.name)
        if planned.host != planned.name:
            world.network.add_alias(planned.host, planned.client_port, planned.name)
        self.config: Final = NodeConfig.load("", planned.name, planned.properties)
        self.metadata_disk: Final = MetadataDisk(planned.name, self.computer.disk, self.config.metadata_log_dir)
        self.is_ready = False
        # Whether it restarts when it exits.
        self.is_wanted = False
        self._stop: asyncio.Event | None = None
        self._node: Node | None = None
        self._end_listeners: Final[list[Callable[[], None]]] = []
        # Called with True when it starts, and with False when it ends or begins to stop.
        self.on_service: Callable[[bool], None] = lambda is_there: None

    @property
    def name(self) -> str:
        return self.computer.name

    @property
    def applied_offset(self) -> int:
        """Of the metadata that the node has applied, or had when it ended; -1: none."""
        return -1 if self._node is None else self._node.applied_offset

    def format(self, initial_controllers: Sequence[InitialController]) -> None:
        ports = self.computer.new_process()
        voters = tuple(initial_controllers) if self.planned.is_voter else ()
        request = FormatRequest(cluster_id=CLUSTER_ID, initial_controllers=voters)
        format_directories(ports.disk, self.config, request, random=ports.random, now_ms=ports.clock.wall_ms())
        ports.process.exit(0)

    def add_end_listener(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when its process has ended, also before a power loss clears the page cache."""
        self._end_listeners.append(listener)

    def start(self) -> None:
        """Starts the node unless it is running already or its computer is off."""
        self.is_wanted = True
        if self.computer.is_on and not self.computer.is_running:
            # The number of processors must not change a run.
            sizes = {**pool_sizes(self.config), Pool.HANDSHAKE: _HANDSHAKE_THREADS}
            self.computer.run(self._serve, pool_sizes=sizes)
            process = self.computer.process
            assert process is not None
            process.add_end_listener(self._on_process_end)
            self.on_service(True)

    def stop(self) -> None:
        """Stops the node as SIGTERM does."""
        self.is_wanted = False
        if self.computer.is_running and self._stop is not None:
            self.world.trace.major(self.name, "receives SIGTERM")
            self.on_service(False)
            assert self.computer.process is not None
            self.computer.process.loop.call_soon(self._stop.set)

    def _on_process_end(self, power_lost: bool) -> None:
        self.is_ready = False
        self._stop = None
        self.on_service(False)
        for listener in self._end_listeners:
            listener()
        process = self.computer.process
        assert process is not None
        if process.exit_code is not None and self.is_wanted:
            self.world.scheduler.call_after(_RESTART_SECONDS, self._restart)

    def _restart(self) -> None:
        if self.is_wanted:
            self.start()

    async def _serve(self, ports: Ports) -> int:
        trace = self.world.trace
        trace.major(self.name, "starts")
        self._stop = stop = asyncio.Event()
        node = Node(
            self.config,
            disk=ports.disk,
            clock=ports.clock,
            random=ports.random,
            executor=ports.executor,
            workers=ThreadWorkers(ports.executor, ports.disk, load_program),
        )
        self._node = node
        node.failed.add_done_callback(self._on_failure)
        try:
            await node.run(stop, self._on_ready)
        except StartError as error:
            trace.major(self.name, f"cannot start: {error}")
            return 2
        return 1 if node.failed.done() else 0

    def _on_ready(self) -> None:
        self.is_ready = True
        self.world.trace.major(self.name, "serves")

    def _on_failure(self, failed: "asyncio.Future[str]") -> None:
        self.is_ready = False
        self.world.trace.major(self.name, f"gives up: {failed.result()}")
