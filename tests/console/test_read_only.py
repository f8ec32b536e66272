"""Pages of a read-only console, for Odradek and with --reference for Apache Kafka."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster as Client
from odradek.client.produce import Producer
from odradek.records.record import Record
from tests.console.browser import DESKTOP, Visitor
from tests.console.conftest import eventually
from tests.console.console_process import ConsoleProcess
from tests.kafka.apache_kafka import REFERENCE, ApacheKafka

PATHS = (
    "/",
    "/brokers",
    "/quorum",
    "/topics",
    "/topics/seen",
    "/partitions",
    "/reassignments",
    "/groups",
    "/configs",
    "/audit-log",
)
CHANGING = (
    *("Create", "Delete", "Purge", "Add", "Produce", "Reset", "Edit", "Elect", "Plan", "Reassign", "Cancel"),
    *("Clone", "Change", "Remove", "Resend", "Drain", "Unregister"),
)


@pytest.fixture(params=["odradek", pytest.param("kafka", marks=REFERENCE)])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "odradek":
        yield request.getfixturevalue("cluster").bootstrap_servers
        return
    kafka = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), tmp_path / "kafka")
    try:
        yield kafka.start().bootstrap
    finally:
        kafka.remove()


@pytest.fixture
def reader(browser: Any, axe: str, bootstrap: str, tmp_path: Path) -> Iterator[Visitor]:
    """A window of a read-only console that requires a password."""
    with Client(parse_bootstrap(bootstrap)) as client:
        brokers = len(client.layout().brokers)
        Admin(client).create_topic("seen", partitions=1, replication_factor=min(3, brokers))
        eventually(lambda: "seen" in client.layout(["seen"]).topics)
        producer = Producer(client)
        producer.add("seen", Record(b"key", b"value", time.time_ns() // 1_000_000))
        producer.flush()
    (tmp_path / "password").write_text("let me in\n")
    console = ConsoleProcess(bootstrap, tmp_path, "--read-only", "--password-file", str(tmp_path / "password"))
    visitor = Visitor(browser, console.address, axe, DESKTOP)
    yield visitor
    visitor.close()
    console.stop()
    assert "Traceback" not in console.log, console.log


def test_read_only_console_shows_all_pages_without_change_buttons(reader: Visitor) -> None:
    page = reader.page
    page.goto(reader.address + "/topics/seen")
    page.get_by_label("Your name").fill("Gregor")
    page.get_by_label("Password").fill("wrong password")
    page.get_by_role("button", name="Log in").click()
    reader.expect(page.get_by_role("alert"), "Wrong password")
    reader.check_accessible()
    reader.problems.clear()
    page.get_by_label("Your name").fill("Gregor")
    page.get_by_label("Password").fill("let me in")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/topics/seen")
    reader.expect(reader.cell("0", "latest"), "1")
    for path in PATHS:
        reader.open(path)
        reader.expect(page.get_by_role("status").first, "Healthy")
        words = " ".join(page.get_by_role("button").all_inner_texts())
        assert not any(word in words for word in CHANGING), f"{path}: {words}"
    reader.open("/configs?topic=seen&search=retention.ms")
    reader.expect(reader.cell("retention.ms", "value"), "604800000")
    reader.open("/topics/seen/messages")
    reader.expect(reader.cell("0:0", "value"), "value")
    reader.open("/brokers/1")
    reader.expect(page.locator("main"), "online; broker, ")
    assert reader.problems == []
