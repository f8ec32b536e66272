"""A chaos run: clients work on a cluster while faults are injected; after recovery, everything is read and checked."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from odradek.base.errors import KafkaError
from odradek.client.errors import ClientError
from tests.chaos.checker import Anomaly, Kind, check, tolerated_duplicates
from tests.chaos.cluster import NODES, NODES_WITH_SLOW_DISKS, PARTITIONS, TOPIC, ChaosCluster, NotRecovered
from tests.chaos.confluent_clients import ConfluentClients, end_offsets, read_finally
from tests.chaos.figures import Figures, longest_gap_s, longest_gaps_s, outcomes
from tests.chaos.history import History
from tests.chaos.java_clients import JavaClients
from tests.chaos.load import RESPONSES_S_MAX, Clients
from tests.chaos.nemesis import KILLS, Nemesis
from tests.chaos.plan import Fault, FaultKind, Plan
from tests.chaos.transactions import figures as transactions
from tests.chaos.transactions.checker import check as check_transactions
from tests.chaos.transactions.load import topic_and_partition
from tests.chaos.transactions.workload import TransactionWorkload
from tests.node_process import NodeFailed
from tests.patience import Patience

PROGRESS_S: Final = 5.0
REST_S: Final = 0.7
"""Pause between two faults, with a healthy cluster."""
KILL_INTERVAL_S: Final = 1.5
KILLS_UNTIL_HEALTHY: Final = 15
"""After this many kills in a row, the run waits until the cluster is healthy."""
FIRST_RESPONSES_S_MAX: Final = 180.0
READ_S_MAX: Final = 120.0

_BROKEN = (NotRecovered, NodeFailed, ClientError, KafkaError, KafkaException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    seed: int
    directory: Path
    seconds: float
    kills: int = 0
    """If set: only this many kills, as fast as nodes start."""
    kinds: frozenset[FaultKind] = frozenset(FaultKind)
    kafka_libs: Path | None = None
    """Directory of Apache Kafka's jars; without it there are no Java clients."""
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    figures: Figures
    anomalies: Sequence[Anomaly]
    faults: Sequence[str]
    """Descriptions with start times."""


def run(settings: Settings, log: Callable[[str], None]) -> Outcome:
    cluster = ChaosCluster(settings.directory)
    # The files are needed to analyse anomalies or a failed run.
    keep_files = True
    try:
        cluster.start()
        chaos_run = _Run(settings, cluster, log)
        anomalies = chaos_run.run()
        outcome = Outcome(chaos_run.figures(), anomalies, chaos_run.faults)
        keep_files = bool(anomalies)
        return outcome
    finally:
        cluster.remove(keep_files=keep_files)


class _Run:
    def __init__(self, settings: Settings, cluster: ChaosCluster, log: Callable[[str], None]) -> None:
        self._settings: Final = settings
        self._cluster: Final = cluster
        self._log: Final = log
        self._history: Final = History(PARTITIONS)
        self._nemesis: Final = Nemesis(cluster)
        self._transactions: Final = TransactionWorkload(cluster.bootstrap, settings.kafka_libs, settings.directory)
        self._clients: Final = self._new_clients()
        self._began_at = time.monotonic()
        self._stalled_s = self._longest_stall_s = 0.0
        self._current_fault = "start"
        self.faults: Final[list[str]] = []
        self._fault_times_s: Final[list[tuple[float, str]]] = []
        without = cluster.without | (frozenset(FaultKind) - settings.kinds)
        self._plan: Final = Plan(
            settings.seed, NODES, PARTITIONS, tuple(cluster.small_disks), NODES_WITH_SLOW_DISKS, without
        )

    def run(self) -> list[Anomaly]:
        broken: list[Anomaly] = []
        try:
            for clients in self._clients:
                clients.start()
            self._wait_for_first_responses()
            self._began_at = time.monotonic()
            with self._progress():
                try:
                    self._inject_faults()
                except _BROKEN as error:
                    broken.append(Anomaly(Kind.NOT_RECOVERED, f"{self._current_fault}: {error}"))
                self._current_fault = "end: waiting for responses and reading everything"
                for clients in self._clients:
                    clients.finish_producing()
                try:
                    self._read_all()
                except _BROKEN as error:
                    broken.append(Anomaly(Kind.NOT_RECOVERED, f"the final read: {error}"))
        except BaseException:
            for clients in self._clients:
                clients.abandon()
            raise
        for clients in self._clients:
            clients.stop()
        try:
            self._compare_copies()
        except _BROKEN as error:
            broken.append(Anomaly(Kind.NOT_RECOVERED, f"cannot compare the replicas: {error}"))
        return [*broken, *check(self._history), *check_transactions(self._transactions.history)]

    def _new_clients(self) -> list[Clients]:
        clients: list[Clients] = [
            ConfluentClients(self._cluster.bootstrap, TOPIC, self._history, self._settings.directory)
        ]
        if self._settings.kafka_libs is not None:
            log = self._settings.directory / "java-clients.log"
            clients.append(JavaClients(self._settings.kafka_libs, self._cluster.bootstrap, TOPIC, self._history, log))
        return [*clients, self._transactions]

    # Faults
    def _inject_faults(self) -> None:
        if self._settings.kills:
            self._inject_kills(self._settings.kills)
            return
        faults = self._plan.faults()
        while time.monotonic() - self._began_at - self._stalled_s < self._settings.seconds:
            self._inject(next(faults), self._nemesis.inject)
            time.sleep(REST_S)

    def _inject_kills(self, wanted: int) -> None:
        faults = self._plan.kills()
        while self._nemesis.tally[KILLS] < wanted:
            started_at = time.monotonic()
            self._inject(next(faults), self._nemesis.inject_without_recovery)
            if len(self.faults) % KILLS_UNTIL_HEALTHY == 0:
                self._nemesis.wait_until_healthy()
            time.sleep(max(0.0, KILL_INTERVAL_S - (time.monotonic() - started_at)))
        self._nemesis.wait_until_healthy()

    def _inject(self, fault: Fault, how: Callable[[Fault], None]) -> None:
        self._current_fault = f"{time.monotonic() - self._began_at:.1f} s: {fault}"
        self.faults.append(self._current_fault)
        self._fault_times_s.append((time.monotonic(), fault.kind))
        how(fault)

    # Start and end
    def _wait_for_first_responses(self) -> None:
        patience = Patience(FIRST_RESPONSES_S_MAX)
        producers = range(len(self._history.producers))
        while not all(self._has_responses(number) for number in producers) or not self._transactions.has_responses():
            if patience.is_over():
                raise NotRecovered(f"not every producer has an acknowledgement after {FIRST_RESPONSES_S_MAX:g} s")
            time.sleep(0.05)

    def _has_responses(self, producer: int) -> bool:
        return any(self._history.sends[producer, partition].acknowledged for partition in range(PARTITIONS))

    def _read_all(self) -> None:
        """Performs the final read and waits until the consumers have reached its end."""
        bootstrap, history = self._cluster.bootstrap, self._history
        ends = end_offsets(bootstrap, TOPIC, PARTITIONS)
        read_finally(bootstrap, TOPIC, history, ends, READ_S_MAX)
        patience = Patience(RESPONSES_S_MAX)
        while not patience.is_over() and any(
            len(reads) < len(history.final[partition]) for (_, partition), reads in history.reads.items()
        ):
            time.sleep(0.1)
        self._transactions.read_all()

    def _compare_copies(self) -> None:
        self._history.copies = self._cluster.copies(TOPIC)
        history = self._transactions.history
        for place in history.places:
            topic, partition = topic_and_partition(place)
            history.copies[place] = self._cluster.copies(topic)[partition]

    # Progress and figures

    @contextmanager
    def _progress(self) -> Iterator[None]:
        stop_event = threading.Event()

        def report_progress() -> None:
            before = self._history.acknowledged
            while not self._wait_and_measure_stall(stop_event):
                now = self._history.acknowledged
                tally = ", ".join(f"{count} {name}" for name, count in self._nemesis.tally.items() if count)
                seconds = time.monotonic() - self._began_at
                rate = (now - before) / PROGRESS_S
                done = f"{now:,} acknowledged, {rate:,.0f}/s; {self._transactions.history.committed:,} transactions"
                self._log(f"{seconds:6.0f} s  {done}; {tally or 'no faults yet'}; {self._current_fault}")
                before = now

        thread = threading.Thread(target=report_progress, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop_event.set()
            thread.join()

    def _wait_and_measure_stall(self, stop_event: threading.Event) -> bool:
        """A late wake-up shows how long the computer did not run this process, which is not the cluster's fault."""
        began_at = time.monotonic()
        is_done = stop_event.wait(PROGRESS_S)
        stall_s = max(0.0, time.monotonic() - began_at - PROGRESS_S)
        self._stalled_s += stall_s
        self._longest_stall_s = max(self._longest_stall_s, stall_s)
        return is_done

    def figures(self) -> Figures:
        history = self._history
        return Figures(
            seed=self._settings.seed,
            seconds=time.monotonic() - self._began_at,
            **outcomes(history),
            read_by_consumers=sum(len(reads) for reads in history.reads.values()),
            read_finally=sum(len(reads) for reads in history.final.values()),
            epoch_changes=history.epoch_changes,
            renumbered=len(history.renumbered),
            tolerated_duplicates=tolerated_duplicates(history),
            faults=dict(self._nemesis.tally),
            longest_recovery_s=self._nemesis.longest_recovery_s,
            longest_gap_s=longest_gap_s(history),
            longest_gap_s_of={name: longest_gap_s(history, number) for number, name in enumerate(history.producers)},
            longest_gap_s_at=longest_gaps_s(history, self._fault_times_s),
            longest_stall_s=self._longest_stall_s,
            transactions=transactions.figures(self._transactions.history),
            tracebacks=sum(_count(file, b"Traceback (most recent call last)") for file in self._cluster.log_files),
            missing=[*self._settings.missing, *self._cluster.missing],
        )


def _count(file: Path, needle: bytes) -> int:
    with file.open("rb") as lines:
        return sum(needle in line for line in lines)
