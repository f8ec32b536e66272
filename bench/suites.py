"""The suites compared with Apache Kafka: one broker, and three brokers with replicas."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import one_broker, three_brokers
from bench.loads import Progress, Volumes
from bench.measures import ONE_BROKER, THREE_BROKERS, Measure


@dataclass(frozen=True)
class Suite:
    name: str
    title: str
    measures: tuple[Measure, ...]
    run_session: Callable[[str, Path, Volumes, Progress], dict[str, float]]
    picture: str


SUITES = (
    Suite("one-broker", "one broker", ONE_BROKER, one_broker.run_session, "benchmarks.png"),
    Suite(
        "three-brokers",
        "three brokers, three replicas",
        THREE_BROKERS,
        three_brokers.run_session,
        "benchmarks-three-brokers.png",
    ),
)
