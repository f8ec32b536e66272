"""The compared sides: Apache Kafka and Odradek, each as a running cluster whose CPU time and memory are metered."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.products import KAFKA, NODES, ODRADEK, running_cluster
from odradek.client.address import Address
from tests.cluster.real_cluster import RealCluster, roles_of, wait_for
from tests.node_process import NodeProcess

TWO_ODRADEK: Final = "two-odradek"
TITLES: Final = {KAFKA: "Kafka", ODRADEK: "Odradek", TWO_ODRADEK: "two Odradek brokers"}
ONE_BROKER_SIDES: Final = (KAFKA, ODRADEK, TWO_ODRADEK)
THREE_BROKER_SIDES: Final = (KAFKA, ODRADEK)

# CPUCLOCK_SCHED of Linux's clock IDs.
_SCHEDULER_CLOCK: Final = 2
# Kafka's defaults; the tests use smaller values. Deleted logs must not wait for the disk.
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "log.segment.delete.delay.ms": "500",
}
REPLICATED: Final = {
    **PROPERTIES,
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
# Like `odradek up --brokers 2`.
_ROLES: Final = {
    KAFKA: roles_of(combined=(1,)),
    ODRADEK: roles_of(combined=(1,)),
    TWO_ODRADEK: roles_of(combined=(1,), brokers=(2,)),
}


@dataclass(frozen=True)
class Usage:
    cpu_s: float
    """User and system time of all threads of all brokers and their workers, also of those that have ended."""
    peak_mb: float
    """Of the broker with the highest value, with its workers."""
    resident_mb: float


class Side:
    def __init__(self, key: str, cluster: RealCluster, libs: Path, replicas: int) -> None:
        self.key = key
        self.libs = libs
        self.replicas = replicas
        self.cluster = cluster
        self.nodes: Sequence[NodeProcess] = cluster.brokers

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def addresses(self) -> list[Address]:
        return [node.address for node in self.cluster.brokers]

    def leaders(self, topic: str) -> list[Address]:
        """Leaders of the topic's partitions, in order, once each partition has one."""
        found: list[int] = []

        def have_leaders() -> bool:
            with self.cluster.client() as client:
                layout = client.layout(None).topics.get(topic)
            found[:] = [] if layout is None else [one.leader for one in layout.partitions]
            return bool(found) and all(leader in self.cluster.nodes for leader in found)

        wait_for(f"leaders of {topic}", have_leaders)
        return [self.cluster.nodes[leader].address for leader in found]


class HasNodes(Protocol):
    @property
    def nodes(self) -> Sequence[NodeProcess]: ...


class Meter:
    """What a side's brokers use from the start of the meter."""

    def __init__(self, side: HasNodes) -> None:
        self._nodes = [[node.pid, *node.worker_pids] for node in side.nodes]
        for pid in self._pids():
            reset_peak(pid)
        self._cpu_s = sum(map(cpu_seconds, self._pids()))
        self._side = side

    def read(self) -> Usage:
        # A worker that started meanwhile has used nothing before.
        self._nodes = [[node.pid, *node.worker_pids] for node in self._side.nodes]
        return Usage(
            sum(map(cpu_seconds, self._pids())) - self._cpu_s,
            max(sum(memory_mb(pid, "VmHWM") for pid in pids) for pids in self._nodes),
            max(sum(memory_mb(pid, "VmRSS") for pid in pids) for pids in self._nodes),
        )

    def _pids(self) -> list[int]:
        return [pid for pids in self._nodes for pid in pids]


def cpu_seconds(pid: int) -> float:
    """With the children that have ended and were waited for; 0 if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        # The kernel's clock of a process: user and system time of all its threads, much finer than clock ticks.
        own = time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError:
        return 0.0
    return own + sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, field: str) -> float:
    """VmRSS or VmHWM; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{field}:"))


def reset_peak(pid: int) -> None:
    """VmHWM restarts at the current resident memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@contextmanager
def one_broker(key: str, libs: Path) -> Iterator[Side]:
    """One broker; for `TWO_ODRADEK` two, each of which can use one of two cores."""
    with _side(key, libs, _ROLES[key], PROPERTIES, replicas=1) as side:
        yield side


@contextmanager
def three_brokers(key: str, libs: Path) -> Iterator[Side]:
    with _side(key, libs, roles_of(combined=NODES), REPLICATED, replicas=len(NODES)) as side:
        yield side


@contextmanager
def _side(
    key: str, libs: Path, roles: Mapping[int, Sequence[str]], properties: Mapping[str, str], *, replicas: int
) -> Iterator[Side]:
    product = KAFKA if key == KAFKA else ODRADEK
    with running_cluster(product, libs, roles, properties) as cluster:
        yield Side(key, cluster, libs, replicas)
