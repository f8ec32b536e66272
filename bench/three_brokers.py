"""A session with three combined nodes, every topic on all of them, two of which must have what is acknowledged."""

import tempfile
import time
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench import loads
from tests.cluster.real_cluster import KafkaMember, Member, OdradekMember, RealCluster, real_cluster, roles_of, wait_for
from tests.kafka.apache_kafka import PRODUCTION_BROKER_FLAGS

NODES = (1, 2, 3)
MB = 1e6
CATCH_UP_S_MAX = 300.0
# One request for each record: at a thousand a second Apache Kafka's queue would only grow, here.
LATENCY_RATE_PER_S = 200


def run_session(product: str, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    """Every measure's value on new data directories."""
    new_member = (
        partial(KafkaMember, libs, flags=PRODUCTION_BROKER_FLAGS) if product == "kafka" else partial(OdradekMember)
    )
    with tempfile.TemporaryDirectory(prefix=f"bench-{product}-", ignore_cleanup_errors=True) as directory:
        progress("start")
        with real_cluster(Path(directory), roles_of(combined=NODES), new_member=new_member) as cluster:
            return {"start": cluster.started_in_s, **_loads(cluster, libs, volumes, progress)}


def _loads(cluster: RealCluster, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    bootstrap = cluster.bootstrap
    progress("warm up")
    warm_up = _create_topic(bootstrap, "warm-up")
    loads.produce(bootstrap, warm_up, volumes.warm_up_records, 100)
    loads.consume(bootstrap, warm_up, volumes.warm_up_records)

    values: dict[str, float] = {}
    progress("producer_perf")
    topic = _create_topic(bootstrap, "performance-tool")
    values["producer_perf"] = loads.performance_tool(libs, bootstrap, topic, volumes.performance_tool_records)
    progress("latency")
    topic = _create_topic(bootstrap, "latency")
    measured = loads.latency(bootstrap, topic, volumes.latency_seconds, LATENCY_RATE_PER_S)
    values["latency_p50"], values["latency_p99"] = measured.p50_ms, measured.p99_ms
    progress("catch_up")
    values["catch_up"] = _catch_up(cluster, volumes.catch_up_records)
    values["memory"] = sum(node.resident_bytes for node in cluster.nodes.values()) / MB
    return values


def _create_topic(bootstrap: str, name: str) -> str:
    return loads.create_topic(bootstrap, name, len(NODES), **{"min.insync.replicas": "2"})


def _catch_up(cluster: RealCluster, records: int) -> float:
    """MB per second that arrive on the disk of a follower that was away, from the first byte to the last."""
    topic = _create_topic(cluster.bootstrap, "catch-up")
    leader = _leader(cluster, topic)
    follower = next(node for node in cluster.nodes.values() if node.node_id != leader.node_id)
    follower.stop()
    loads.produce(leader.bootstrap, topic, records, 1024)
    wanted = _bytes_of(leader, topic)
    follower.spawn()
    wait_for("the first bytes at the follower", lambda: _bytes_of(follower, topic) > 0, CATCH_UP_S_MAX)
    began_at, had = time.monotonic(), _bytes_of(follower, topic)
    wait_for("the whole log at the follower", lambda: _bytes_of(follower, topic) == wanted, CATCH_UP_S_MAX)
    took = time.monotonic() - began_at
    follower.wait_until_ready()
    cluster.wait_until_whole()
    return (wanted - had) / MB / took


def _leader(cluster: RealCluster, topic: str) -> Member:
    layout = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, timeout=30)
    return cluster.nodes[layout.topics[topic].partitions[0].leader]


def _bytes_of(node: Member, topic: str) -> int:
    return sum(file.stat().st_size for file in node.log_dirs[0].glob(f"{topic}-0/*.log"))
