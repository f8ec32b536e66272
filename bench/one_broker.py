"""A session with one broker: starts a new node, runs every load on it, and stops it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import loads
from bench.products import KAFKA, data_directory
from tests.kafka.apache_kafka import PRODUCTION_BROKER_FLAGS, ApacheKafka
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess

GB = 1e9


def run_session(product: str, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    """Returns the value of every measure, on a new data directory."""
    progress("start")
    with one_node(product, libs) as node:
        return {"start": node.started_in_s, **_loads(node, libs, volumes, progress)}


@contextmanager
def one_node(product: str, libs: Path, properties: Mapping[str, str] | None = None) -> Iterator[NodeProcess]:
    """A running node on a new data directory, removed afterwards."""
    with data_directory(product) as directory:
        node = _node(product, libs, directory, properties)
        try:
            node.start()
            yield node
        finally:
            node.kill()


def _node(product: str, libs: Path, directory: Path, properties: Mapping[str, str] | None) -> NodeProcess:
    if product == KAFKA:
        return ApacheKafka(libs, directory, flags=PRODUCTION_BROKER_FLAGS, properties=properties)
    return OdradekProcess(directory, properties=properties)


def _loads(node: NodeProcess, libs: Path, volumes: loads.Volumes, progress: loads.Progress) -> dict[str, float]:
    progress("warm up")
    loads.warm_up(node.bootstrap, loads.create_topic(node.bootstrap, "warm-up"), volumes.warm_up_records)

    values: dict[str, float] = {}
    cpu_before = node.cpu_seconds
    progress("producer_perf")
    topic = loads.create_topic(node.bootstrap, "performance-tool")
    values["producer_perf"] = loads.performance_tool(libs, node.bootstrap, topic, volumes.performance_tool_records)
    written = volumes.performance_tool_records * 100
    for size, records in ((100, volumes.produce_100_records), (1024, volumes.produce_1024_records)):
        progress(f"produce_{size}")
        topic = loads.create_topic(node.bootstrap, f"produce-{size}")
        values[f"produce_{size}"] = loads.produce(node.bootstrap, topic, records, size)
        written += size * records
    values["cpu_per_gb"] = (node.cpu_seconds - cpu_before) / (written / GB)

    progress("consume_100")
    values["consume_100"] = loads.consume(node.bootstrap, "produce-100", volumes.produce_100_records)
    progress("latency")
    measured = loads.latency(node.bootstrap, loads.create_topic(node.bootstrap, "latency"), volumes.latency_seconds)
    values["latency_p50"], values["latency_p99"] = measured.p50_ms, measured.p99_ms
    values["memory"] = node.resident_bytes / 1e6
    return values
