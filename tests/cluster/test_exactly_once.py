"""Consume, transform, produce, by the Java client, while brokers are bounced: the output is the input, in order."""

import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.cluster.test_transactions import PROPERTIES, committed, create
from tests.kafka.java_program import java_command

SOURCE = Path(__file__).parent.parent / "kafka" / "java" / "TransactionalCopy.java"
BOUNCES = 3
PORTION = 2_500
RECORDS = (BOUNCES + 1) * PORTION
SECONDS_MAX = 300.0


def fill(cluster: RealCluster, topic: str, number: int) -> None:
    """One portion before each bounce, so that there is something to do while it lasts; and one to begin with."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for record in range(number * PORTION, (number + 1) * PORTION):
        producer.produce(topic, b"%d" % record, partition=record % 3)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["hard", "clean"])
def test_output_equals_input(kind: str, apache_kafka_libs: Path, tmp_path: Path) -> None:
    roles = dict.fromkeys((1, 2, 3), COMBINED)
    with real_cluster(tmp_path, roles, properties=PROPERTIES) as cluster:
        create(cluster, "input", "output")
        fill(cluster, "input", 0)
        command = java_command(apache_kafka_libs, SOURCE)
        copying: subprocess.Popen[str] | None = None
        bounced = 0
        lives = 0

        def is_copied() -> bool:
            """One life after the other, as a client's supervisor would have it."""
            nonlocal copying, bounced, lives
            if copying is None or copying.poll() is not None:
                done = sum(map(len, committed(cluster, "output")))
                if done >= RECORDS:
                    return True
                lives += 1
                arguments = [cluster.bootstrap, "input", "output", "copier", str(RECORDS - done)]
                copying = subprocess.Popen(
                    [*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
                )
                return False
            if bounced < BOUNCES:
                victim = cluster.nodes[1 + bounced % 3]
                bounced += 1
                fill(cluster, "input", bounced)
                if kind == "hard":
                    victim.kill()
                else:
                    victim.stop()
                time.sleep(2)
                cluster.start_the_dead()
                cluster.wait_until_whole()
            else:
                time.sleep(0.5)
            return False

        try:
            wait_for("all records at the other side", is_copied, SECONDS_MAX)
        finally:
            if copying is not None:
                copying.kill()
                copying.wait()
        assert bounced == BOUNCES
        assert committed(cluster, "output") == [[b"%d" % one for one in range(index, RECORDS, 3)] for index in range(3)]
