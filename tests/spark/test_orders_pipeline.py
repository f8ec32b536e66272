"""The orders pipeline with a real Spark and a real broker: exact when all goes well, and when the broker is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.orders.check import compare
from examples.orders.generate import Order, generate_orders
from examples.orders.job import JobPaths, OrdersJob
from examples.orders.produce import OrderProducer
from examples.orders.run import stream
from examples.orders.topics import Topics, create_topics
from examples.runtime.session import spark_session
from tests.components import ROOT
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.patience import Patience

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.tier("proof")]

TOPICS = Topics()
ORDERS_BETWEEN_FAULTS = 750


def start_pipeline(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command as `make pipeline-connector` gives it, with every temporary file where the test can see it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "examples.orders", "--output", str(tmp_path / "results"), *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_command_starts_a_broker_and_ends_exact(tmp_path: Path, spark_jars: tuple[Path, ...]) -> None:
    pipeline = start_pipeline(tmp_path, "--orders", "5000", "--rate", "2500")
    output, _ = pipeline.communicate(timeout=400)

    assert pipeline.returncode == 0, output
    assert "exact: every order once" in output
    assert (tmp_path / "results" / "orders.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "results" / "orders.parquet").glob("*.parquet"))
    assert not list((tmp_path / "temporary").iterdir())


def test_ctrl_c_stops_the_broker_and_leaves_nothing_behind(tmp_path: Path, spark_jars: tuple[Path, ...]) -> None:
    pipeline = start_pipeline(tmp_path, "--orders", "100000", "--rate", "1000")
    parquet = tmp_path / "results" / "orders.parquet"
    wait_until(lambda: parquet.exists() or pipeline.poll() is not None, "the first Parquet file")
    [node_pid] = [int(file.read_text()) for file in (tmp_path / "temporary").glob("*/broker/cluster/node-1/pid")]

    pipeline.send_signal(signal.SIGINT)
    output, _ = pipeline.communicate(timeout=200)

    assert pipeline.returncode == 130, output
    assert "interrupted" in output
    assert "Traceback" not in output
    assert not Path(f"/proc/{node_pid}").exists()
    assert not processes_naming(tmp_path), "Java goes with the pipeline"
    assert not list((tmp_path / "temporary").iterdir())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NodeProcess]:
    node = OdradekProcess(tmp_path / "node")
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture
def spark(tmp_path: Path, spark_jars: tuple[Path, ...]) -> Iterator[SparkSession]:
    with spark_session("orders-test", spark_jars, tmp_path / "spark", tmp_path / "spark.log") as session:
        yield session


def test_every_order_once_though_the_broker_is_killed_and_the_queries_restarted(
    tmp_path: Path, broker: NodeProcess, spark: SparkSession
) -> None:
    orders = list(generate_orders(12_000, seed=11))
    create_topics(broker.bootstrap, TOPICS)
    paths = JobPaths(tmp_path / "orders.parquet", tmp_path / "checkpoints")
    job = OrdersJob(spark, broker.bootstrap, TOPICS, paths)

    def kill_the_broker_under_running_queries() -> None:
        broker.kill()
        time.sleep(1.0)
        broker.start()

    def kill_the_broker_and_restart_the_queries() -> None:
        broker.kill()
        time.sleep(0.5)
        # The batches in progress have met the dead broker and end in the middle. A stop may wait as long as Spark's
        # Kafka client waits for a response, a minute: meanwhile the broker comes back.
        stopping = threading.Thread(target=job.stop)
        stopping.start()
        time.sleep(0.5)
        broker.start()
        stopping.join()
        job.start()

    def restart_the_queries() -> None:
        job.stop()
        job.start()

    faults = [kill_the_broker_under_running_queries, kill_the_broker_and_restart_the_queries, restart_the_queries]
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(job.stop)
        job.start()
        # Spark's first batches take seconds while Java warms up; afterwards the faults come while orders flow.
        warm_up, rest = orders[:500], orders[500:]
        run_to_end(job, broker, warm_up, rate=500, order_count=len(warm_up))

        producer = OrderProducer(broker.bootstrap, TOPICS.orders, rest, orders_per_second=300)
        cleanup.callback(producer.stop)
        next_fault_at = ORDERS_BETWEEN_FAULTS
        for sample in stream(job, producer, len(orders)):
            if faults and min(sample.landed, sample.aggregated) >= next_fault_at:
                assert not producer.is_done, f"the orders ended before {faults[0].__name__}"
                faults.pop(0)()
                next_fault_at = max(sample.landed, sample.aggregated) + ORDERS_BETWEEN_FAULTS

    assert not faults
    assert compare(spark, broker.bootstrap, TOPICS, paths.parquet, orders).differences() == []
    assert rows_of(spark, paths.parquet) == orders


def run_to_end(job: OrdersJob, broker: NodeProcess, orders: list[Order], *, rate: float, order_count: int) -> None:
    producer = OrderProducer(broker.bootstrap, TOPICS.orders, orders, rate)
    try:
        for _ in stream(job, producer, order_count):
            pass
    finally:
        producer.stop()


def rows_of(spark: SparkSession, parquet: Path) -> list[Order]:
    rows = spark.read.parquet(str(parquet)).drop("partition", "offset").orderBy("order_id").collect()
    return [Order(**row.asDict()) for row in rows]


def processes_naming(directory: Path) -> list[str]:
    """Command lines of all running processes that were given a path under this directory."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(directory) in command:
                found.append(command)
    return found


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 200.0) -> None:
    patience = Patience(timeout_s)
    while not condition():
        assert not patience.is_over(), f"waited {timeout_s:.0f} s for {what}"
        time.sleep(0.1)
