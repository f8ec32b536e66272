"""`odradek group` on three brokers while coordinators die: it finds the new coordinators, and no offset is lost."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.real_cluster import COMBINED, RealCluster, real_cluster, wait_for
from tests.wire.cli_call import Cli

TOPIC = "orders"
PARTITIONS = 3
GROUPS = [f"group-{number}" for number in range(12)]
PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    directory = tmp_path_factory.mktemp("cli-groups")
    with real_cluster(directory, dict.fromkeys((1, 2, 3), COMBINED), properties=PROPERTIES) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(20)
        for number, group in enumerate(GROUPS):
            consumer = Consumer({"bootstrap.servers": started.bootstrap, "group.id": group})
            wait_for(f"a commit of {group}", lambda consumer=consumer, number=number: commits(consumer, number))  # type: ignore[misc]
            consumer.close()
        yield started


def commits(consumer: Consumer, offset: int) -> bool:
    """Return whether the commit succeeded: __consumer_offsets is created by the first one."""
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


@pytest.fixture
def cli(cluster: RealCluster, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(monkeypatch, capfdbinary, cluster.bootstrap)


def as_json(cli: Cli, *arguments: str) -> Any:
    return cli.ok("group", *arguments, "--format", "json", "--timeout", "30").json


def coordinators(cli: Cli) -> dict[str, int]:
    return {one["group"]: one["coordinator"] for one in as_json(cli, "list") if one["group"] in GROUPS}


def spread_coordinators(cli: Cli) -> dict[str, int]:
    """Wait until every broker has coordinators: after a slow start or a death, leaders may be on other brokers."""

    def are_spread() -> bool:
        found = coordinators(cli)
        if sorted(found) == sorted(GROUPS) and set(found.values()) == {1, 2, 3}:
            return True
        # Fails while the preferred leader has not caught up.
        cli("topic", "elect", "--topic", "__consumer_offsets")
        return False

    wait_for("coordinators on all brokers", are_spread)
    return coordinators(cli)


@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.tier("proof"))])
def test_group_commands_find_the_new_coordinator_after_a_broker_dies(cluster: RealCluster, cli: Cli, how: str) -> None:
    before = spread_coordinators(cli)
    victim = cluster.nodes[before[GROUPS[0]]]
    if how == "killed":
        victim.kill()
    else:
        victim.stop()
    try:
        # The new coordinator may still be loading; requests are retried until it has loaded.
        (orphan,) = as_json(cli, "describe", GROUPS[0])
        assert orphan["coordinator"]["node"] != before[GROUPS[0]]
        found = as_json(cli, "lag", *GROUPS, "--interval", "0")
        assert {one["group"]: one["partitions"][0]["committed"] for one in found} == {
            group: number for number, group in enumerate(GROUPS)
        }
        wait_for("every group", lambda: sorted(coordinators(cli)) == sorted(GROUPS))
        assert before[GROUPS[0]] not in coordinators(cli).values()
        cli.ok("group", "reset", GROUPS[0], "--to-latest", "--topic", f"{TOPIC}:1", "--execute", "--timeout", "30")
    finally:
        cluster.start_the_dead()
    (kept,) = as_json(cli, "lag", GROUPS[0], "--interval", "0")
    assert [(one["partition"], one["committed"]) for one in kept["partitions"]] == [(0, 0), (1, 0)]
