"""Measures consumers of the KIP-848 protocol during a rolling restart of the brokers.

A group stops while a partition that is written to continuously delivers no record to any member. Measured are the
longest stop of any partition of any group, and the number of partitions that changed their owner.
"""

import threading
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from bench.gaps import QUICK_SETTINGS, ConfluentGaps
from bench.groups.cluster import create_topic, in_sync, three_brokers
from tests.cluster.real_cluster import RealCluster, wait_for

TOPIC = "rolling"
PARTITIONS = 6
GROUPS, MEMBERS = 2, 3
STEADY_S = 5.0
WAIT_S_MAX = 120.0


@dataclass(frozen=True)
class RestartResult:
    longest_stop_s: float
    changes: int
    """Partitions revoked from a member or assigned to one."""


def measure() -> RestartResult:
    with three_brokers() as cluster:
        create_topic(cluster, TOPIC, PARTITIONS)
        producer = ConfluentGaps(cluster.bootstrap, TOPIC, PARTITIONS, **QUICK_SETTINGS)
        groups = [_Group(cluster.bootstrap, f"rolling-{number}") for number in range(GROUPS)]
        try:
            return _restart_all(cluster, groups)
        finally:
            for group in groups:
                group.stop()
            producer.stop()


def _restart_all(cluster: RealCluster, groups: list["_Group"]) -> RestartResult:
    wait_for("an even assignment", lambda: all(group.is_shared for group in groups), WAIT_S_MAX)
    time.sleep(STEADY_S)
    for group in groups:
        group.reset()
    for node in cluster.nodes.values():
        node.stop()
        node.start()
        cluster.wait_until_whole(WAIT_S_MAX)
        wait_for("all replicas in sync", lambda: in_sync(cluster, TOPIC), WAIT_S_MAX)
        time.sleep(STEADY_S)
    return RestartResult(max(group.longest_stop_s for group in groups), sum(group.changes for group in groups))


class _Group:
    """The members of a group, each in a thread."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._longest_s = [0.0] * PARTITIONS
        self._last: list[float | None] = [None] * PARTITIONS
        self._shares = [0] * MEMBERS
        self.changes = 0
        self._is_over = False
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "latest",
            "log_level": 0,
        }
        self._threads = [
            threading.Thread(target=self._read, args=(Consumer(settings), number), daemon=True)
            for number in range(MEMBERS)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_shared(self) -> bool:
        return sorted(self._shares) == [PARTITIONS // MEMBERS] * MEMBERS and None not in self._last

    @property
    def longest_stop_s(self) -> float:
        """Includes the current stop."""
        now = time.monotonic()
        return max(max(longest, now - (last or now)) for longest, last in zip(self._longest_s, self._last, strict=True))

    def reset(self) -> None:
        self._longest_s = [0.0] * PARTITIONS
        self.changes = 0

    def stop(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()

    def _read(self, consumer: Consumer, number: int) -> None:
        def changed(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.changes += len(partitions)

        consumer.subscribe([TOPIC], on_assign=changed, on_revoke=changed, on_lost=changed)
        while not self._is_over:
            message = consumer.poll(0.1)
            self._shares[number] = len(consumer.assignment())
            if message is None or message.error() is not None:
                continue
            partition, now = message.partition(), time.monotonic()
            assert partition is not None
            last, self._last[partition] = self._last[partition], now
            if last is not None:
                self._longest_s[partition] = max(self._longest_s[partition], now - last)
        consumer.close()
