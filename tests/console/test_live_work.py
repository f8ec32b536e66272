"""Live views: partitions under writes, and a Spark pipeline that is started and stopped in the browser."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.console.browser import DESKTOP, Visitor
from tests.console.conftest import eventually
from tests.console.console_process import ConsoleProcess
from tests.java import require_java
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.spark.quick_spark import quick_environment

PARTITIONS = 8
HOT = 5
# A pipeline starts its own Spark.
SPARK_STARTS_S = 180.0
PIPELINE = """
name: shop
bootstrap: {bootstrap}
sources:
  orders: {{topic: orders, schema: "id bigint"}}
sinks:
  copied: {{from: orders, topic: copies, key: id}}
dead_letters: dead
trigger: 1s
"""


@dataclass(frozen=True)
class Work:
    broker: OdradekProcess
    console: ConsoleProcess
    visitor: Visitor

    def put(self, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for value in values:
            producer.produce("orders", value)
        assert producer.flush(30) == 0


@pytest.fixture
def work(browser: Any, axe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    require_java()
    for name, text in quick_environment().items():
        monkeypatch.setenv(name, text)
    (port,) = free_ports(1)
    broker = OdradekProcess(tmp_path / "node", properties={"http.address": str(port), "hot.keys.enable": "true"})
    try:
        broker.start()
        with Cluster(parse_bootstrap(broker.bootstrap)) as client:
            for topic, partitions in (("busy", PARTITIONS), ("orders", 1), ("copies", 1), ("dead", 1)):
                Admin(client).create_topic(topic, partitions=partitions, replication_factor=1)
        file = tmp_path / "shop.yaml"
        file.write_text(PIPELINE.format(bootstrap=broker.bootstrap))
        console = ConsoleProcess(broker.bootstrap, tmp_path, "--pipeline", str(file))
        visitor = Visitor(browser, console.address, axe, DESKTOP)
        try:
            yield Work(broker, console, visitor)
            assert visitor.problems == []
        finally:
            visitor.close()
            console.stop()
        assert "Traceback" not in console.log, console.log
    finally:
        broker.remove()


def test_hot_partition_is_shown_with_its_hot_key(work: Work) -> None:
    visitor = work.visitor
    producer = Producer({"bootstrap.servers": work.broker.bootstrap, "linger.ms": 5})
    page = visitor.open("/partitions?search=busy&order=heat")
    hot = visitor.cell(f"busy-{HOT}", "written").filter(has_text="hot: ").filter(has_text="key customer-7 is ")

    def is_seen() -> bool:
        for number in range(4000):
            is_hot = number % PARTITIONS != 0
            key = b"customer-7" if is_hot and number % 3 else b"%d" % number
            producer.produce("busy", b"x" * 200, key, partition=HOT if is_hot else number // PARTITIONS % PARTITIONS)
        assert producer.flush(30) == 0
        return bool(hot.count())

    eventually(is_seen, 60)
    # The row moves to the top without a reload.
    visitor.expect(page.locator("main tbody tr").first, f"busy-{HOT}")
    visitor.check_accessible()


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.tier("proof")
def test_spark_pipeline_is_started_observed_and_stopped(work: Work) -> None:
    visitor = work.visitor
    work.put(*(b'{"id": %d}' % number for number in range(100)), b"{")
    page = visitor.open("/pipelines")
    visitor.press("Start shop")
    visitor.press_in_dialog("Start pipeline")

    def shows(**cells: str) -> bool:
        return all(visitor.cell("0:copied", column).filter(has_text=text).count() for column, text in cells.items())

    eventually(lambda: shows(state="running", records="101", lag="0"), SPARK_STARTS_S)
    visitor.expect(visitor.cell("0:orders.dead_letters", "letters"), "1")
    work.put(b'{"id": 100}')
    eventually(lambda: shows(state="running", records="102", lag="0"), 60)
    visitor.check_accessible()
    visitor.press("Stop shop")
    visitor.press_in_dialog("Stop pipeline")
    eventually(lambda: shows(state="stopped"), 60)
    page.get_by_role("button", name="Start shop").wait_for()
    read_topic = import_module("odradek").read_topic
    table = read_topic("copies", bootstrap_servers=work.broker.bootstrap, columns=["value"]).read_all()
    assert [json.loads(value)["id"] for value in table["value"].to_pylist()] == list(range(101))
