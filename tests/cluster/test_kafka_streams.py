"""Kafka Streams counts words exactly once while it and a broker are killed: counts of a word are 1, 2, 3 and so on."""

import os
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.real_cluster import COMBINED, REPLICATED_COORDINATORS, Member, RealCluster, real_cluster, wait_for
from tests.cluster.test_transactions import PARTITIONS, committed, create
from tests.kafka.java_program import java_command

pytestmark = pytest.mark.tier("proof")

SOURCE = Path(__file__).parent.parent / "kafka" / "java" / "WordCount.java"
APPLICATION = "word-count"
WORDS = [f"word-{number}" for number in range(40)]
LINES_PER_BATCH = 300
WORDS_PER_LINE = 5
SECONDS_MAX = 120.0

# How often the application and the coordinator of its group are killed.
ROUNDS = int(os.environ.get("ODRADEK_STREAMS_ROUNDS", "1"))

# Streams creates internal topics, and a rebalance waits for the session timeout of killed members.
MORE_PROPERTIES = {"default.replication.factor": "3", "group.min.session.timeout.ms": "1000"}


class Counting:
    """The Streams application, which can be killed and restarted."""

    def __init__(self, libs: Path, directory: Path, cluster: RealCluster) -> None:
        self._command = java_command(libs, SOURCE)
        self._directory = directory
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> Path:
        return self._directory / "output.log"

    def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        arguments = [self._cluster.bootstrap, "input", "output", str(self._directory / "state")]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen([*self._command, *arguments], stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Updates:
    """The output that a permanently running read_committed consumer reads."""

    def __init__(self, cluster: RealCluster) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "updates",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition("output", index, 0) for index in range(PARTITIONS)])
        self.values: list[bytes] = []

    def wait_for(self, count: int) -> None:
        """Wait without an overall limit, as long as updates arrive."""
        while len(self.values) < count:
            self.wait_for_more()

    def wait_for_more(self) -> None:
        before = len(self.values)

        def are_there() -> bool:
            self.values += [one.value() for one in self._consumer.consume(1000, 0.1) if one.error() is None]
            return len(self.values) > before

        wait_for(f"more than {before} updates", are_there, SECONDS_MAX)

    def close(self) -> None:
        self._consumer.close()


def feed(cluster: RealCluster, choice: random.Random) -> Counter[str]:
    """Produce one more batch of lines and return the count of each word in it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    fed: Counter[str] = Counter()
    for number in range(LINES_PER_BATCH):
        words = choice.choices(WORDS, k=WORDS_PER_LINE)
        fed.update(words)
        producer.produce("input", " ".join(words).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return fed


def group_coordinator(cluster: RealCluster) -> Member:
    found: list[Member] = []

    def is_found() -> bool:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        with suppress(KafkaException):
            described = admin.describe_consumer_groups([APPLICATION])[APPLICATION].result(10)
            if described.coordinator.id in cluster.nodes:
                found.append(cluster.nodes[described.coordinator.id])
        return bool(found)

    wait_for("a group coordinator", is_found)
    return found[0]


def counts_by_word(values: Iterable[bytes]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for value in values:
        word, _, count = value.decode().partition(" ")
        found[word].append(int(count))
    return found


@pytest.mark.timeout(200 + 100 * ROUNDS)
def test_streams_counts_words_exactly_once_while_app_and_broker_are_killed(streams_libs: Path, tmp_path: Path) -> None:
    roles = dict.fromkeys((1, 2, 3), COMBINED)
    choice = random.Random(6)
    with real_cluster(tmp_path / "cluster", roles, properties=REPLICATED_COORDINATORS | MORE_PROPERTIES) as cluster:
        create(cluster, "input", "output")
        counting = Counting(streams_libs, tmp_path / "application", cluster)
        counting.start()
        updates = Updates(cluster)
        try:
            fed = feed(cluster, choice)
            for _ in range(ROUNDS):
                updates.wait_for_more()
                victim = group_coordinator(cluster)
                victim.kill()
                fed += feed(cluster, choice)
                updates.wait_for_more()
                fed += feed(cluster, choice)
                updates.wait_for_more()
                counting.kill()
                counting.start()
                victim.start()
                fed += feed(cluster, choice)
            updates.wait_for(fed.total())
        except BaseException:
            print(counting.output.read_text())
            raise
        finally:
            updates.close()
            counting.kill()
        expected = {word: list(range(1, count + 1)) for word, count in fed.items()}
        assert counts_by_word(updates.values) == expected
        assert counts_by_word(chain.from_iterable(committed(cluster, "output"))) == expected
