"""How fast virtual time passes: three nodes with nothing to do, and with clients.

Measured in the time that this process had a processor, so that other work of the machine makes little difference.
Evidence for the checkers is not collected meanwhile: what a whole run costs, the seeds per second say.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from odradek.base.ids import TopicPartition
from odradek.sim.clients.admin import Admin
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.producer import Producer
from odradek.sim.clients.reader import Reader
from odradek.sim.clients.topic_observer import TopicObserver
from odradek.sim.computer import Ports
from odradek.sim.history import History
from odradek.sim.layout import CLIENT_PORT, THREE_COMBINED, plan_nodes
from odradek.sim.node_host import NodeHost
from odradek.sim.world import World, simulated_world

_ORDERS: Final = TopicPartition("orders", 0)
_SENDS_PER_SECOND: Final = 5.0
_CHANGES_INTERVAL_SECONDS: Final = 0.4
_START_SECONDS_MAX: Final = 30.0
_WARM_UP_SECONDS: Final = 5.0


class Speed(NamedTuple):
    simulated_per_real_second: float
    operations_per_simulated_second: float


def measure_idle(seconds: float) -> Speed:
    with _three_nodes() as cluster:
        return cluster.measure(seconds)


def measure_busy(seconds: float) -> Speed:
    """A topic of three replicas is written and read, and others are created, changed and deleted."""
    with _three_nodes() as cluster:
        cluster.add_clients()
        return cluster.measure(seconds)


@contextmanager
def _three_nodes() -> Iterator["_Cluster"]:
    with simulated_world(1) as world:
        yield _Cluster(world)


class _Cluster:
    def __init__(self, world: World) -> None:
        self._world: Final = world
        self._history: Final = History()
        plan = plan_nodes(THREE_COMBINED, world.random("cluster"))
        nodes = []
        for planned in plan.nodes:
            properties = {**planned.properties, "default.replication.factor": "3", "min.insync.replicas": "2"}
            nodes.append(NodeHost(world, replace(planned, properties=properties)))
        self._bootstrap: Final = tuple((node.name, CLIENT_PORT) for node in nodes)
        for node in nodes:
            node.format(plan.initial_controllers)
            node.start()
        if not world.run_for(_START_SECONDS_MAX, lambda: all(node.is_ready for node in nodes)):
            raise TimeoutError("the nodes do not start")

    def measure(self, seconds: float) -> Speed:
        self._world.run_for(_WARM_UP_SECONDS)
        operations = self._operations
        began = time.process_time()
        self._world.run_for(seconds)
        spent = time.process_time() - began
        return Speed(seconds / spent, (self._operations - operations) / seconds)

    @property
    def _operations(self) -> int:
        history = self._history
        return len(history.sends) + len(history.reads) + len(history.changes)

    def add_clients(self) -> None:
        is_set_up = False

        async def set_up(ports: Ports) -> int:
            nonlocal is_set_up
            await Admin(self._client(ports), self._history, is_single_node=False).create(_ORDERS.topic, 1, {})
            is_set_up = True
            return 0

        async def produce(ports: Ports) -> int:
            client = self._client(ports)
            await Producer(client, self._history, _ORDERS, sends_per_second=_SENDS_PER_SECOND, in_flight_max=5).run()
            return 0

        async def read(ports: Ports) -> int:
            await Reader(self._client(ports), self._history, _ORDERS, uses_session=True).follow()
            return 0

        async def change(ports: Ports) -> int:
            client = self._client(ports)
            admin = Admin(client, self._history, is_single_node=False)
            observer = TopicObserver(client, self._history, is_current=False)
            await admin.change_topics(("alpha", "beta"), _CHANGES_INTERVAL_SECONDS, observer)
            return 0

        self._world.add_computer("setup").run(set_up)
        if not self._world.run_for(_START_SECONDS_MAX, lambda: is_set_up):
            raise TimeoutError("the topic is not created")
        for name, program in (("producer", produce), ("reader", read), ("admin", change)):
            self._world.add_computer(name).run(program)

    def _client(self, ports: Ports) -> ClusterClient:
        return ClusterClient(ports, self._bootstrap, self._world.trace)
