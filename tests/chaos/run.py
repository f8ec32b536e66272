"""The course of a run: a cluster, clients at work, a nemesis; then everything heals, is read once more and checked."""

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
from tests.chaos.checker import Anomaly, Kind, check, excused
from tests.chaos.cluster import NODES, NODES_WITH_SLOWABLE_DISKS, PARTITIONS, TOPIC, ChaosCluster, Unhealed
from tests.chaos.confluent_clients import ConfluentClients, end_offsets, read_finally
from tests.chaos.figures import Figures, longest_gap_s, longest_gaps_s, outcomes
from tests.chaos.history import History
from tests.chaos.java_clients import JavaClients
from tests.chaos.load import ANSWERS_S_MAX, Clients
from tests.chaos.nemesis import KILLS, Nemesis
from tests.chaos.plan import Act, Plan, Strike
from tests.chaos.transactions import figures as transactions
from tests.chaos.transactions.checker import check as check_transactions
from tests.chaos.transactions.load import topic_and_partition
from tests.chaos.transactions.workload import TransactionWorkload
from tests.node_process import NodeFailed
from tests.patience import Patience

PROGRESS_S: Final = 5.0
REST_S: Final = 0.7
"""Between two strikes: the cluster is whole, and clients are at work."""
KILL_INTERVAL_S: Final = 1.5
STRIKES_UNTIL_HEALTHY: Final = 15
"""After that many in a row everything is let to catch up once."""
FIRST_ANSWERS_S_MAX: Final = 180.0
READ_S_MAX: Final = 120.0

_BROKEN = (Unhealed, NodeFailed, ClientError, KafkaError, KafkaException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    seed: int
    directory: Path
    seconds: float
    kills: int = 0
    """If it is given: kills and nothing else, so many, as fast as nodes start."""
    acts: frozenset[Act] = frozenset(Act)
    kafka_libs: Path | None = None
    """Where Apache Kafka's jars are; without them there are no Java clients."""
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    figures: Figures
    anomalies: Sequence[Anomaly]
    strikes: Sequence[str]
    """What was done, with the second at which it began."""


def run(settings: Settings, say: Callable[[str], None]) -> Outcome:
    cluster = ChaosCluster(settings.directory)
    # Whoever asks why a run found something, or broke off, needs the files.
    keep_files = True
    try:
        cluster.start()
        course = _Course(settings, cluster, say)
        anomalies = course.run()
        outcome = Outcome(course.figures(), anomalies, course.strikes)
        keep_files = bool(anomalies)
        return outcome
    finally:
        cluster.remove(keep_files=keep_files)


class _Course:
    def __init__(self, settings: Settings, cluster: ChaosCluster, say: Callable[[str], None]) -> None:
        self._settings: Final = settings
        self._cluster: Final = cluster
        self._say: Final = say
        self._history: Final = History(PARTITIONS)
        self._nemesis: Final = Nemesis(cluster)
        self._transactions: Final = TransactionWorkload(cluster.bootstrap, settings.kafka_libs, settings.directory)
        self._clients: Final = self._new_clients()
        self._began_at = time.monotonic()
        self._stalled_s = self._longest_stall_s = 0.0
        self._doing = "start"
        self.strikes: Final[list[str]] = []
        self._done_at_s: Final[list[tuple[float, str]]] = []
        without = cluster.without | (frozenset(Act) - settings.acts)
        self._plan: Final = Plan(
            settings.seed, NODES, PARTITIONS, tuple(cluster.small_disks), NODES_WITH_SLOWABLE_DISKS, without
        )

    def run(self) -> list[Anomaly]:
        broken: list[Anomaly] = []
        try:
            for clients in self._clients:
                clients.start()
            self._wait_for_first_answers()
            self._began_at = time.monotonic()
            with self._progress():
                try:
                    self._harm()
                except _BROKEN as error:
                    broken.append(Anomaly(Kind.UNHEALED, f"{self._doing}: {error}"))
                self._doing = "the end: answers are awaited, everything is read again"
                for clients in self._clients:
                    clients.finish_producing()
                try:
                    self._read_all()
                except _BROKEN as error:
                    broken.append(Anomaly(Kind.UNHEALED, f"the final read: {error}"))
        except BaseException:
            for clients in self._clients:
                clients.abandon()
            raise
        for clients in self._clients:
            clients.stop()
        try:
            self._compare_copies()
        except _BROKEN as error:
            broken.append(Anomaly(Kind.UNHEALED, f"the copies cannot be compared: {error}"))
        return [*broken, *check(self._history), *check_transactions(self._transactions.history)]

    def _new_clients(self) -> list[Clients]:
        clients: list[Clients] = [
            ConfluentClients(self._cluster.bootstrap, TOPIC, self._history, self._settings.directory)
        ]
        if self._settings.kafka_libs is not None:
            log = self._settings.directory / "java-clients.log"
            clients.append(JavaClients(self._settings.kafka_libs, self._cluster.bootstrap, TOPIC, self._history, log))
        return [*clients, self._transactions]

    # The faults

    def _harm(self) -> None:
        if self._settings.kills:
            self._harm_by_kills(self._settings.kills)
            return
        strikes = self._plan.strikes()
        while time.monotonic() - self._began_at - self._stalled_s < self._settings.seconds:
            self._carry_out(next(strikes), self._nemesis.carry_out)
            time.sleep(REST_S)

    def _harm_by_kills(self, wanted: int) -> None:
        strikes = self._plan.kills()
        while self._nemesis.tally[KILLS] < wanted:
            struck_at = time.monotonic()
            self._carry_out(next(strikes), self._nemesis.carry_out_in_a_row)
            if len(self.strikes) % STRIKES_UNTIL_HEALTHY == 0:
                self._nemesis.wait_until_healthy()
            time.sleep(max(0.0, KILL_INTERVAL_S - (time.monotonic() - struck_at)))
        self._nemesis.wait_until_healthy()

    def _carry_out(self, strike: Strike, how: Callable[[Strike], None]) -> None:
        self._doing = f"{time.monotonic() - self._began_at:.1f} s: {strike}"
        self.strikes.append(self._doing)
        self._done_at_s.append((time.monotonic(), strike.act))
        how(strike)

    # The beginning and the end

    def _wait_for_first_answers(self) -> None:
        patience = Patience(FIRST_ANSWERS_S_MAX)
        producers = range(len(self._history.producers))
        while not all(self._has_answers(number) for number in producers) or not self._transactions.has_answers():
            if patience.is_over():
                raise Unhealed(f"not every producer has an acknowledgement after {FIRST_ANSWERS_S_MAX:g} s")
            time.sleep(0.05)

    def _has_answers(self, producer: int) -> bool:
        return any(self._history.sends[producer, partition].acknowledged for partition in range(PARTITIONS))

    def _read_all(self) -> None:
        """The final read, and the consumers' way to where it ended."""
        bootstrap, history = self._cluster.bootstrap, self._history
        ends = end_offsets(bootstrap, TOPIC, PARTITIONS)
        read_finally(bootstrap, TOPIC, history, ends, READ_S_MAX)
        patience = Patience(ANSWERS_S_MAX)
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

    # What is said

    @contextmanager
    def _progress(self) -> Iterator[None]:
        enough = threading.Event()

        def tell() -> None:
            before = self._history.acknowledged
            while not self._wait_and_time(enough):
                now = self._history.acknowledged
                tally = ", ".join(f"{count} {name}" for name, count in self._nemesis.tally.items() if count)
                seconds = time.monotonic() - self._began_at
                rate = (now - before) / PROGRESS_S
                done = f"{now:,} acknowledged, {rate:,.0f}/s; {self._transactions.history.committed:,} transactions"
                self._say(f"{seconds:6.0f} s  {done}; {tally or 'no harm yet'}; {self._doing}")
                before = now

        thread = threading.Thread(target=tell, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def _wait_and_time(self, enough: threading.Event) -> bool:
        """Whoever wakes up late knows for how long this machine did nothing: no cluster is to blame for that."""
        began_at = time.monotonic()
        is_enough = enough.wait(PROGRESS_S)
        stall_s = max(0.0, time.monotonic() - began_at - PROGRESS_S)
        self._stalled_s += stall_s
        self._longest_stall_s = max(self._longest_stall_s, stall_s)
        return is_enough

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
            excused=excused(history),
            strikes=dict(self._nemesis.tally),
            longest_recovery_s=self._nemesis.longest_recovery_s,
            longest_gap_s=longest_gap_s(history),
            longest_gap_s_of={name: longest_gap_s(history, number) for number, name in enumerate(history.producers)},
            longest_gap_s_at=longest_gaps_s(history, self._done_at_s),
            longest_stall_s=self._longest_stall_s,
            transactions=transactions.figures(self._transactions.history),
            tracebacks=sum(_count(file, b"Traceback (most recent call last)") for file in self._cluster.log_files),
            missing=[*self._settings.missing, *self._cluster.missing],
        )


def _count(file: Path, needle: bytes) -> int:
    with file.open("rb") as lines:
        return sum(needle in line for line in lines)
