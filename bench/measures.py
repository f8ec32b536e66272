"""The measures of sessions with one broker and with three brokers, with their targets."""

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    HIGHER = "≥"
    LOWER = "≤"


@dataclass(frozen=True)
class Measure:
    """One row of the report. The target applies to Odradek's value divided by Kafka's."""

    key: str
    title: str
    unit: str
    better: Better
    target: float

    def meets_target(self, ratio: float) -> bool:
        return ratio >= self.target if self.better is Better.HIGHER else ratio <= self.target


ONE_BROKER = (
    Measure("producer_perf", "kafka-producer-perf-test, 100 B, acks=all", "records/s", Better.HIGHER, 1.3),
    Measure("produce_100", "confluent-kafka produce, 100 B", "records/s", Better.HIGHER, 1.0),
    Measure("produce_1024", "confluent-kafka produce, 1 KiB", "records/s", Better.HIGHER, 1.0),
    Measure("consume_100", "confluent-kafka consume, 100 B", "records/s", Better.HIGHER, 1.0),
    Measure("latency_p50", "end-to-end latency p50, 1,000 records/s", "ms", Better.LOWER, 0.7),
    Measure("latency_p99", "end-to-end latency p99, 1,000 records/s", "ms", Better.LOWER, 0.7),
    Measure("start", "start to first Metadata response", "s", Better.LOWER, 0.12),
    Measure("memory", "resident memory after the load", "MB", Better.LOWER, 0.1),
    Measure("cpu_per_gb", "CPU seconds per GB written", "s/GB", Better.LOWER, 0.4),
)

THREE_BROKERS = (
    Measure("producer_perf", "kafka-producer-perf-test, 100 B, acks=all", "records/s", Better.HIGHER, 1.5),
    Measure("latency_p99", "end-to-end latency p99, 200 records/s", "ms", Better.LOWER, 0.5),
    Measure("catch_up", "catch-up of a restarted follower", "MB/s", Better.HIGHER, 1.0),
    Measure("start", "start of all three brokers", "s", Better.LOWER, 0.12),
    Measure("memory", "resident memory of all three brokers after the load", "MB", Better.LOWER, 0.12),
)
