"""The rewrite job on a real broker, without Java: planned, killed, resumed, and followed until the switch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import EARLIEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.consume import Consumed, Consumer
from odradek.client.partitioner import partition_of_key
from odradek.pipelines.jobs.progress import Progress
from odradek.pipelines.jobs.rewrite import job as job_module
from odradek.pipelines.jobs.rewrite import switch as switch_module
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.history import RewriteHistory
from odradek.pipelines.jobs.rewrite.job import RewriteJob, RewriteSettings
from odradek.pipelines.jobs.rewrite.rules import Rules
from odradek.pipelines.jobs.rewrite.switch import Switch
from odradek.pipelines.jobs.state import JobState
from odradek.text.errors import UserError
from tests.node_process import NodeProcess
from tests.wire.arrow_frames import ArrowReader, write_frame_once

KEYS = 20
FIRST_MS = 1_700_000_000_000


class Died(BaseException):
    pass


@pytest.fixture
def cluster(broker: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(job_module, "write_once", write_frame_once)
    monkeypatch.setattr(switch_module, "IDLE_S", 0.2)
    with Cluster(parse_bootstrap(broker.bootstrap)) as opened:
        yield opened


class Rewriting:
    def __init__(self, cluster: Cluster, broker: NodeProcess, topic: str, state: Path, **more: Any) -> None:
        self.settings = RewriteSettings(
            bootstrap=broker.bootstrap, source=topic, target=f"{topic}-copy", state=state, name="copy", **more
        )
        self.state = JobState(state, "copy")
        self._cluster = cluster
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})

    def put(self, numbers: range) -> None:
        for number in numbers:
            headers = [("h", b"%d" % number)] if number % 50 == 0 else None
            key, time_ms = b"k%d" % (number % KEYS), FIRST_MS + number
            self._producer.produce(self.settings.source, b"%d" % number, key, headers=headers, timestamp=time_ms)
        assert self._producer.flush(30) == 0

    def run(self, should_stop: Any = lambda: False) -> Progress:
        with self.state.hold():
            job = RewriteJob(self._cluster, self.settings, self.state)
            return job.run(cast(Any, ArrowReader()), should_stop=should_stop)

    def copied(self, partitions: int) -> list[Consumed]:
        places = [TopicPartition(self.settings.target, number) for number in range(partitions)]
        ends = Admin(self._cluster).offsets(dict.fromkeys(places, -1))
        consumer = Consumer(
            self._cluster, Admin(self._cluster).offsets(dict.fromkeys(places, EARLIEST)), read_committed=True
        )
        found: list[Consumed] = []
        while any(consumer.positions[one] < ends[one] for one in places):
            before = dict(consumer.positions)
            found += consumer.poll(wait_ms=20_000)
            assert consumer.positions != before, "a transaction is still open"
        return sorted(found, key=lambda one: (one.partition, one.record.offset))


def test_rewrite_to_more_partitions_survives_crashes_until_the_switch(
    cluster: Cluster, broker: NodeProcess, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Admin(cluster).create_topic(topic, partitions=2, replication_factor=1, configs={"retention.ms": "-1"})
    rewriting = Rewriting(cluster, broker, topic, tmp_path, partitions=5, batch_records=120)
    rewriting.put(range(300))

    def die(*arguments: Any, **more: Any) -> None:
        raise Died

    # Crash when a batch is planned, and when it is visible but not yet recorded as done.
    for place, name in ((job_module, "write_once"), (RewriteHistory, "keep_ends")):
        with monkeypatch.context() as planted, pytest.raises(Died):
            planted.setattr(place, name, die)
            rewriting.run()
    progress = rewriting.run()
    assert progress.batches == 2 and progress.lag == 0 and 150 < progress.rows < 200
    assert rewriting.run().batches == 0

    rewriting.put(range(300, 330))
    rewriting.settings = replace(rewriting.settings, follow=True, interval_s=0.1)
    looks = 0

    def never() -> bool:
        nonlocal looks
        looks += 1
        if looks == 4:
            Switch(rewriting.state).request()
        return False

    assert rewriting.run(never).rows == 30 and looks > 4
    found = rewriting.copied(5)
    assert len(found) == 330
    for key in {one.record.key for one in found}:
        assert key is not None
        of_key = [one for one in found if one.record.key == key]
        assert {one.partition.partition for one in of_key} == {partition_of_key(key, 5)}
        assert [int(one.record.value or b"") for one in of_key] == list(range(int(key[1:]), 330, KEYS))
    assert all(one.record.timestamp == FIRST_MS + int(one.record.value or b"") for one in found)
    assert {int(one.record.value or b""): one.record.headers for one in found if one.record.headers} == {
        number: (("h", b"%d" % number),) for number in range(0, 330, 50)
    }
    retention = Admin(cluster).topic_configs([rewriting.settings.target], ["retention.ms"])
    assert [one.value for one in retention[rewriting.settings.target]] == ["-1"], "made like its source"

    known = RewriteHistory(cluster, rewriting.state, "copy")
    assert known.last_batch() == 3 and sum((known.ends() or {}).values()) > 330
    Admin(cluster).create_partitions(rewriting.settings.target, 6)
    with pytest.raises(UserError, match="has 6 partitions, but the job started with 5"):
        rewriting.run()


def test_rewrite_leaves_out_erased_keys(cluster: Cluster, broker: NodeProcess, topic: str, tmp_path: Path) -> None:
    Admin(cluster).create_topic(topic, partitions=2, replication_factor=1, configs={"retention.ms": "-1"})
    rules = Rules(erased=ErasedKeys.of([b"k3", b"k7"]))
    rewriting = Rewriting(cluster, broker, topic, tmp_path, rules=rules)
    rewriting.put(range(100))
    progress = rewriting.run()
    assert (progress.rows, progress.left_out) == (90, 10)
    found = rewriting.copied(2)
    assert len(found) == 90 and not {b"k3", b"k7"} & {one.record.key for one in found}
    assert b"k3" not in (rewriting.state.directory / "job.json").read_bytes()

    for other, message in (
        (Rules(), "a job with other --without-keys"),
        (replace(rules, window_ms=5), "window_ms ''"),
    ):
        rewriting.settings = replace(rewriting.settings, rules=other)
        with pytest.raises(UserError, match=message):
            rewriting.run()
    rewriting.settings = replace(rewriting.settings, rules=rules)
    for plan in (rewriting.state.directory / "batches").iterdir():
        plan.unlink()
    with pytest.raises(UserError, match="The state is an older copy"):
        rewriting.run()
