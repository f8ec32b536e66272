"""A session of offset commits and transactions: on one broker, then on three with replicated internal topics."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import loads
from bench.commit_load import commits_per_second
from bench.one_broker import one_node
from bench.products import NODES, cluster_of_three
from bench.transaction_load import transactions_per_second
from odradek.client.address import Address
from odradek.client.admin import Admin
from tests.cluster.real_cluster import RealCluster, wait_for

# Kafka's defaults; the tests use smaller values.
DEFAULTS = {"offsets.topic.num.partitions": "50", "group.initial.rebalance.delay.ms": "3000"}
REPLICATED = {
    **DEFAULTS,
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
TOPIC = "rates"


def run_session(product: str, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    """Returns the value of every measure, on new data directories."""
    return {
        **_one_broker(product, libs, volumes, progress),
        **_three_brokers(product, libs, volumes, progress),
    }


def _one_broker(product: str, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    progress("start of one broker")
    with one_node(product, libs, DEFAULTS) as node:
        address = Address(node.host, node.port)
        loads.create_topic(node.bootstrap, TOPIC)
        values = _rates([address], [address], volumes, progress)
        progress("kafka-consumer-perf-test")
        read = loads.create_topic(node.bootstrap, "performance-tool")
        loads.produce(node.bootstrap, read, volumes.consumer_tool_records, 100)
        loads.consume(node.bootstrap, read, volumes.consumer_tool_records)
        values["consumer_perf"] = loads.consumer_tool(libs, node.bootstrap, read, volumes.consumer_tool_records)
        return values


def _three_brokers(product: str, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    progress("start of three brokers")
    with cluster_of_three(product, libs, REPLICATED) as cluster:
        with cluster.client() as client:
            Admin(client).create_topic(TOPIC, partitions=len(NODES), replication_factor=len(NODES))
        wait_for("three leaders", lambda: len(_leaders(cluster)) == len(NODES))
        addresses = [node.address for node in cluster.nodes.values()]
        rates = _rates(addresses, _leaders(cluster), volumes, progress)
        return {f"{key}_replicated": value for key, value in rates.items()}


def _leaders(cluster: RealCluster) -> list[Address]:
    """Leaders of the topic's partitions, in order, without those that have none."""
    with cluster.client() as client:
        # The broker may not have applied the topic yet.
        topic = client.layout(None).topics.get(TOPIC)
    partitions = () if topic is None else topic.partitions
    return [cluster.nodes[one.leader].address for one in partitions if one.leader in cluster.nodes]


def _rates(
    brokers: Sequence[Address], leaders: Sequence[Address], volumes: loads.Volumes, progress: loads.Progress
) -> dict[str, float]:
    times: Mapping[str, float] = {"warm_up_s": volumes.rate_warm_up_s, "seconds": volumes.rate_s}
    progress("offset commits")
    commits = commits_per_second(brokers, TOPIC, **times)
    progress("transactions")
    return {"commits": commits, "transactions": transactions_per_second(brokers, leaders, TOPIC, **times)}
