"""Runs consume-transform-produce for one combination while brokers or copiers are restarted.

The input arrives in portions, one before each round of restarts and one at the end, and copiers exit when they have
copied a portion. So there is always something to copy during a restart, however fast the computer is.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.real_cluster import COMBINED, REPLICATED_COORDINATORS, Member, RealCluster, wait_for
from tests.exactly_once.combinations import BROKERS, Combination
from tests.exactly_once.copier import Copier
from tests.exactly_once.reading import Reader, differences, read_committed

INPUT: Final = "input"
OUTPUT: Final = "output"
GROUP: Final = "copiers"
ROUNDS: Final = 3
"""Each round restarts one broker or every copier."""
PROGRESS_AT_BOUNCE: Final = 0.2
DOWN_S: Final = 2.0
TRANSACTION_TIMEOUT_MS: Final = 40_000
"""As in Kafka's tests: longer than the clients' request timeout of 30 s, so that no transaction times out because a
broker is killed. A restarted copier fetches its offsets before it aborts the open transaction, and waits that long.
"""
SECONDS_MAX: Final = 180.0
"""For each step, plus the same for every 10,000 records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    combination: Combination
    records: int
    seconds: float
    """From the first copier's start until everything was copied."""
    bounces: int
    starts: int
    """Process starts of all copiers."""
    differences: list[str]


def run(
    combination: Combination,
    records: int,
    libs: Path,
    directory: Path,
    *,
    log: Callable[[str], None] = lambda _: None,
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
) -> Outcome:
    """Raises CopierFailed, or AssertionError on a timeout. Keeps the files of a failed run."""
    cluster = RealCluster(directory, dict.fromkeys((1, 2, 3), COMBINED), properties=REPLICATED_COORDINATORS)
    keep_files = True
    try:
        cluster.start()
        arguments = ["--transaction-timeout", str(transaction_timeout_ms)]
        copiers = [
            Copier(libs, f"copier-{number}", [*arguments, *_arguments(cluster, combination, number)], directory)
            for number in range(combination.copiers)
        ]
        outcome = _Run(cluster, combination, records, copiers, log).run()
        keep_files = bool(outcome.differences)
        return outcome
    finally:
        for node in cluster.nodes.values():
            node.kill()
        if not keep_files:
            cluster.remove()


def _arguments(cluster: RealCluster, combination: Combination, number: int) -> list[str]:
    arguments = ["--broker-list", cluster.bootstrap, "--consumer-group", GROUP]
    arguments += ["--input-topic", INPUT, "--input-partition", str(number), "--output-topic", OUTPUT]
    arguments += ["--use-group-metadata"] if combination.with_group_metadata else []
    arguments += ["--group-mode"] if combination.is_group else []
    return arguments


class _Run:
    def __init__(
        self,
        cluster: RealCluster,
        combination: Combination,
        records: int,
        copiers: Sequence[Copier],
        log: Callable[[str], None],
    ) -> None:
        self._cluster: Final = cluster
        self._combination: Final = combination
        self._records: Final = records
        self._log: Final = log
        self._seconds_max: Final = SECONDS_MAX * (1 + records / 10_000)
        self._produced = 0
        self._bounces = 0
        self._copiers: Final = copiers

    def run(self) -> Outcome:
        self._create_topics()
        reader = Reader(self._cluster.bootstrap, OUTPUT, self._combination.output_partitions)
        reader.start()
        began_at = time.monotonic()
        try:
            for number in range(1, ROUNDS + 2):
                self._produce(self._records * number // (ROUNDS + 1))
                for copier in self._copiers:
                    copier.start()
                if number <= ROUNDS:
                    self._bounce(number)
                self._wait("the copiers to copy everything", self._have_all_ended)
                self._log(f"{time.monotonic() - began_at:6.1f} s  {self._produced:,} copied, {self._bounces} bounces")
            seconds = time.monotonic() - began_at
            return Outcome(
                combination=self._combination,
                records=self._records,
                seconds=seconds,
                bounces=self._bounces,
                starts=sum(copier.starts for copier in self._copiers),
                differences=self._differences(reader),
            )
        finally:
            for copier in self._copiers:
                copier.stop(is_hard=True)
            reader.stop()

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        topics = [
            NewTopic(INPUT, self._combination.input_partitions, 3),
            NewTopic(OUTPUT, self._combination.output_partitions, 3),
        ]
        for created in admin.create_topics(topics).values():
            created.result(20)

    def _produce(self, until: int) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(self._produced, until):
            while True:
                try:
                    producer.produce(INPUT, b"%d" % number, partition=number % self._combination.input_partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(60) == 0
        self._produced = until

    # Bounces

    def _bounce(self, number: int) -> None:
        if self._combination.target == BROKERS:
            for copier in self._copiers:
                self._wait_for_progress(copier)
            self._bounce_broker(self._cluster.nodes[number])
            return
        for copier in self._copiers:
            self._wait_for_progress(copier)
            copier.bounce(is_hard=self._combination.is_hard)
            self._bounces += 1

    def _wait_for_progress(self, copier: Copier) -> None:
        self._wait("a copier to make progress", lambda: copier.has_ended() or copier.progress >= PROGRESS_AT_BOUNCE)

    def _bounce_broker(self, node: Member) -> None:
        if self._combination.is_hard:
            node.kill()
        else:
            node.stop()
        self._bounces += 1
        time.sleep(DOWN_S)
        self._cluster.start_the_dead()
        self._cluster.wait_until_whole()

    # End
    def _have_all_ended(self) -> bool:
        return all(copier.has_ended() for copier in self._copiers)

    def _differences(self, reader: Reader) -> list[str]:
        partitions = self._combination.input_partitions
        expected = [[b"%d" % one for one in range(number, self._records, partitions)] for number in range(partitions)]
        bootstrap = self._cluster.bootstrap
        final = read_committed(bootstrap, OUTPUT, self._combination.output_partitions, self._seconds_max)
        self._wait("the reader to reach the end", lambda: reader.count >= sum(map(len, final)))
        reader.stop()
        return [
            *differences("the final read", expected, final),
            *differences("the concurrent reader", expected, reader.found),
        ]

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        wait_for(what, condition, self._seconds_max)
