"""Quix Streams, exactly once: a stateful application is killed in a transaction; its successor continues the count."""

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.node_process import NodeProcess
from tests.wire.committed_records import committed_records
from tests.wire.plain_requests import until

pytestmark = pytest.mark.tier("proof")

APPLICATION = Path(__file__).with_name("quix_counting.py")
PARTITIONS = 2
WORDS = [f"word-{number}" for number in range(7)]
TIMEOUT_S = 60.0


@pytest.fixture
def start(
    quix_streams_python: Path, broker: NodeProcess, topic: str, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def run(**plan: Any) -> subprocess.Popen[str]:
        common = {"bootstrap": broker.bootstrap, "source": topic, "target": f"{topic}-counts"}
        plan = {**common, "state_dir": str(tmp_path / "state"), "stops_after": -1, **plan}
        command = [str(quix_streams_python), str(APPLICATION), json.dumps(plan)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def feed(broker: NodeProcess, topic: str, count: int) -> Counter[str]:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    words = [WORDS[number % len(WORDS)] for number in range(count)]
    for word in words:
        producer.produce(topic, word, key=word)
    assert producer.flush(30) == 0
    return Counter(words)


def counts_by_word(broker: NodeProcess, topic: str) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for values in committed_records(broker.bootstrap, topic, PARTITIONS):
        for value in values:
            word, _, count = value.decode().partition(" ")
            found[word].append(int(count))
    return found


def update_count(broker: NodeProcess, topic: str) -> int:
    return sum(map(len, counts_by_word(broker, topic).values()))


def test_stateful_count_is_exact_after_a_kill(
    broker: NodeProcess, topic: str, start: Callable[..., subprocess.Popen[str]]
) -> None:
    target = f"{topic}-counts"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(one, PARTITIONS, 1) for one in (topic, target)]).values():
        created.result(30)
    fed = feed(broker, topic, 100)
    killed = start(stops_after=25)
    assert killed.stdout is not None and killed.stdout.readline() == "stopped\n"
    assert 0 < update_count(broker, target) < 25
    killed.kill()
    killed.wait()

    successor = start()
    fed += feed(broker, topic, 100)
    until(lambda: update_count(broker, target) >= fed.total(), TIMEOUT_S, what="all the counts")
    successor.terminate()
    successor.wait(TIMEOUT_S)
    assert counts_by_word(broker, target) == {word: list(range(1, count + 1)) for word, count in fed.items()}
