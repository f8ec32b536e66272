"""A session with three combined nodes, three replicas and min.insync.replicas=2."""

import time
from pathlib import Path

from bench import loads
from bench.products import NODES, cluster_of_three
from tests.cluster.real_cluster import Member, RealCluster, wait_for

MB = 1e6
CATCH_UP_S_MAX = 300.0
# One request per record: at 1,000 per second, Apache Kafka's queue would grow without limit here.
LATENCY_RATE_PER_S = 200


def run_session(product: str, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    """Returns the value of every measure, on new data directories."""
    progress("start")
    with cluster_of_three(product, libs) as cluster:
        return {"start": cluster.started_in_s, **_loads(cluster, libs, volumes, progress)}


def _loads(cluster: RealCluster, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    bootstrap = cluster.bootstrap
    progress("warm up")
    loads.warm_up(bootstrap, _create_topic(bootstrap, "warm-up"), volumes.warm_up_records)

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
    return loads.create_topic(bootstrap, name, len(NODES), {"min.insync.replicas": "2"})


def _catch_up(cluster: RealCluster, records: int) -> float:
    """MB per second written to the disk of a restarted follower, from the first byte to the last."""
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
    with cluster.client() as client:
        return cluster.nodes[client.topics([topic])[topic].partitions[0].leader]


def _bytes_of(node: Member, topic: str) -> int:
    return sum(file.stat().st_size for file in node.log_dirs[0].glob(f"{topic}-0/*.log"))
