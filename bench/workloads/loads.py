"""What each workload does in one round, on any side."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Final

from bench import loads
from bench.commit_load import commit_offsets
from bench.loads import Work
from bench.transaction_load import run_transactions
from bench.workloads.sides import Side
from odradek.client.address import Address
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import now_ms

PARTITIONS: Final = 12
KIB: Final = 1024
_RATE_WARM_UP_S: Final = 0.5
_NUMBERS: Final = count()


class Load(ABC):
    """Only `run` is measured."""

    is_timed = False
    """Whether the amount is the time in milliseconds, and not a number of units."""

    def prepare(self, side: Side, amount: int) -> None:
        """Before each round, with the largest amount of a round."""
        return

    @abstractmethod
    def run(self, side: Side, amount: int) -> Work: ...

    def clean(self, side: Side) -> None:
        """After each round."""
        return


class _NewTopic(Load):
    """Each round writes a new topic, which is deleted afterwards, because a filling page cache would disturb it."""

    partitions: int = PARTITIONS
    _topic = ""

    def prepare(self, side: Side, amount: int) -> None:
        self._topic = create_topic(side, f"round-{next(_NUMBERS)}", self.partitions)

    def clean(self, side: Side) -> None:
        loads.delete_topic(side.bootstrap, self._topic)


@dataclass
class ProduceWithTool(_NewTopic):
    size: int
    codec: str

    def run(self, side: Side, amount: int) -> Work:
        rate = loads.performance_tool(side.libs, side.bootstrap, self._topic, amount, size=self.size, codec=self.codec)
        return Work(rate, amount)


@dataclass
class ProduceWithConfluent(_NewTopic):
    size: int

    def run(self, side: Side, amount: int) -> Work:
        return Work(loads.produce(side.bootstrap, self._topic, amount, self.size), amount)


@dataclass
class ConsumeWithTool(Load):
    """Each round reads the whole topic as a new group of one member."""

    size: int
    codec: str

    def prepare(self, side: Side, amount: int) -> None:
        """The first round writes the records of all rounds."""
        topic = topic_of(self.size)
        if not has_topic(side, topic):
            create_topic(side, topic, PARTITIONS)
            loads.performance_tool(side.libs, side.bootstrap, topic, amount, size=self.size, codec=self.codec)

    def run(self, side: Side, amount: int) -> Work:
        group = f"round-{next(_NUMBERS)}"
        rate = loads.consumer_tool(side.libs, side.bootstrap, topic_of(self.size), amount, group=group)
        return Work(rate, amount)


@dataclass
class SmallRequests(_NewTopic):
    """Produce requests of one record, five in flight on each connection."""

    connections: int

    def prepare(self, side: Side, amount: int) -> None:
        self.partitions = self.connections
        super().prepare(side, amount)

    def run(self, side: Side, amount: int) -> Work:
        leaders = side.leaders(self._topic)
        requests = amount // self.connections
        frames = [self._request(partition) for partition in range(self.connections)]
        with ThreadPoolExecutor(self.connections) as threads:
            seconds = max(
                threads.map(
                    lambda leader, frame: loads.send_pipelined(f"{leader.host}:{leader.port}", [frame], requests),
                    leaders,
                    frames,
                )
            )
        done = requests * self.connections
        return Work(done / seconds, done)

    def _request(self, partition: int) -> bytes:
        return loads.produce_request(self._topic, batch(TestRecord(b"x" * 100), timestamp=now_ms()), partition)


class _PerSecond(Load):
    is_timed = True
    TOPIC: Final = "rates"

    def prepare(self, side: Side, amount: int) -> None:
        if not has_topic(side, self.TOPIC):
            create_topic(side, self.TOPIC, PARTITIONS)

    def run(self, side: Side, amount: int) -> Work:
        seconds = amount / 1000
        return self.run_for(side.addresses, side.leaders(self.TOPIC), _RATE_WARM_UP_S, seconds)

    @abstractmethod
    def run_for(self, brokers: Sequence[Address], leaders: Sequence[Address], warm_up_s: float, s: float) -> Work: ...


class Commits(_PerSecond):
    def run_for(self, brokers: Sequence[Address], leaders: Sequence[Address], warm_up_s: float, s: float) -> Work:
        return commit_offsets(brokers, self.TOPIC, warm_up_s=warm_up_s, seconds=s)


class Transactions(_PerSecond):
    def run_for(self, brokers: Sequence[Address], leaders: Sequence[Address], warm_up_s: float, s: float) -> Work:
        return run_transactions(brokers, leaders, self.TOPIC, warm_up_s=warm_up_s, seconds=s)


def create_topic(side: Side, name: str, partitions: int) -> str:
    configs = {"min.insync.replicas": "2"} if side.replicas > 1 else {}
    loads.create_topic(side.bootstrap, name, side.replicas, configs, partitions=partitions)
    side.leaders(name)
    return name


def topic_of(size: int) -> str:
    """The topic that `ConsumeWithTool` reads."""
    return f"records-of-{size}"


def has_topic(side: Side, name: str) -> bool:
    with side.cluster.client() as client:
        return name in client.layout(None).topics
