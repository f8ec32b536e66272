"""The suites compared with Apache Kafka: one broker, three brokers with replicas, and groups and transactions."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import groups_and_transactions, one_broker, three_brokers
from bench.loads import Progress, Volumes
from bench.measures import GROUPS, ONE_BROKER, THREE_BROKERS, Measure


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
    Suite(
        "groups",
        "groups and transactions",
        GROUPS,
        groups_and_transactions.run_session,
        "benchmarks-groups.png",
    ),
)
