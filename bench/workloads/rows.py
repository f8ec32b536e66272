"""The rows: one workload each, with its amount of work per round and its targets."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bench.products import KAFKA, ODRADEK
from bench.workloads.loads import (
    KIB,
    Commits,
    ConsumeWithTool,
    Load,
    ProduceWithConfluent,
    ProduceWithTool,
    SmallRequests,
    Transactions,
)
from bench.workloads.sides import ONE_BROKER_SIDES, THREE_BROKER_SIDES, TWO_ODRADEK

MEMORY_MB_MAX: Final = 80.0
"""Of each Odradek broker, in every row."""


class Cluster(Enum):
    ONE_BROKER = "one broker"
    THREE_BROKERS = "three brokers"


@dataclass(frozen=True)
class Target:
    """Bounds of Odradek's values divided by Kafka's; None if there is no target."""

    rate_min: float | None = None
    cpu_max: float | None = None


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    cluster: Cluster
    load: Load
    full: int
    """Units per round at most, or milliseconds for a load that runs for a given time."""
    quick: int
    """Units per round at least, and in a quick run."""
    targets: dict[str, Target] = field(default_factory=dict)
    """By the side that is compared with Kafka."""
    only_sides: tuple[str, ...] = ()
    value_bytes: int = 0
    """Bytes of a record's value, if CPU time per byte is of interest."""

    @property
    def sides(self) -> tuple[str, ...]:
        if self.only_sides:
            return self.only_sides
        return ONE_BROKER_SIDES if self.cluster is Cluster.ONE_BROKER else THREE_BROKER_SIDES

    def amount(self, *, quick: bool) -> int:
        return self.quick if quick else self.full


CONSUME_1024: Final = "consume_1024"
PRODUCE_1024: Final = "produce_1024"
_ONE, _THREE = Cluster.ONE_BROKER, Cluster.THREE_BROKERS

ROWS: Final = (
    Row(
        "produce_lz4",
        "kafka-producer-perf-test, 100 B lz4",
        "records",
        _ONE,
        ProduceWithTool(100, "lz4"),
        3_000_000,
        1_000_000,
        {ODRADEK: Target(1.3, 0.66)},
    ),
    Row(
        PRODUCE_1024,
        "kafka-producer-perf-test, 1 KiB",
        "records",
        _ONE,
        ProduceWithTool(KIB, "none"),
        500_000,
        200_000,
        {ODRADEK: Target(1.2, 0.7)},
        value_bytes=KIB,
    ),
    Row(
        "consume_lz4",
        "kafka-consumer-perf-test, 100 B lz4",
        "records",
        _ONE,
        ConsumeWithTool(100, "lz4"),
        6_000_000,
        2_000_000,
        {ODRADEK: Target(1.1, 0.7)},
    ),
    Row(
        CONSUME_1024,
        "kafka-consumer-perf-test, 1 KiB",
        "records",
        _ONE,
        ConsumeWithTool(KIB, "none"),
        1_000_000,
        400_000,
        {ODRADEK: Target(1.1, 0.8)},
        value_bytes=KIB,
    ),
    Row(
        "small_requests",
        "one record per request, five in flight",
        "requests",
        _ONE,
        SmallRequests(1),
        40_000,
        8_000,
        {ODRADEK: Target(3.4)},
        (KAFKA, ODRADEK),
    ),
    Row(
        "small_requests_2",
        "one record per request, two connections, five in flight on each",
        "requests",
        _ONE,
        SmallRequests(2),
        40_000,
        8_000,
        only_sides=(KAFKA, TWO_ODRADEK),
    ),
    Row(
        "commits",
        "offset commits",
        "commits",
        _ONE,
        Commits(),
        3_000,
        1_000,
        {ODRADEK: Target(0.8, 1.0), TWO_ODRADEK: Target(1.0)},
    ),
    Row(
        "transactions",
        "transactions",
        "transactions",
        _ONE,
        Transactions(),
        3_000,
        1_000,
        {ODRADEK: Target(1.0)},
    ),
    Row(
        "consume_1024_three",
        "kafka-consumer-perf-test, 1 KiB, three brokers",
        "records",
        _THREE,
        ConsumeWithTool(KIB, "none"),
        600_000,
        200_000,
        {ODRADEK: Target(1.1, 0.6)},
    ),
    Row(
        "produce_100_three",
        "confluent-kafka produce, 100 B, three brokers, RF 3",
        "records",
        _THREE,
        ProduceWithConfluent(100),
        600_000,
        200_000,
        {ODRADEK: Target(1.6)},
    ),
    Row(
        "commits_three",
        "offset commits, three brokers, RF 3",
        "commits",
        _THREE,
        Commits(),
        3_000,
        1_000,
        {ODRADEK: Target(1.0)},
    ),
    Row(
        "transactions_three",
        "transactions, three brokers, RF 3",
        "transactions",
        _THREE,
        Transactions(),
        3_000,
        1_000,
        {ODRADEK: Target(1.0)},
    ),
)
