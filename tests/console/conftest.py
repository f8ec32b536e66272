"""One cluster, console and browser for all tests, because starting them takes longer than most tests."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster as Client
from odradek.client.produce import Producer
from odradek.records.record import Record
from odradek.testing import Cluster
from tests.console.browser import DESKTOP, PHONE, Visitor, chromium, installed_axe
from tests.console.console_process import ConsoleProcess
from tests.schema_registry import FakeRegistry, fake_registry

PIPELINE = "pipeline.yaml"
TABLE = "table"


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="package")
def axe() -> str:
    return installed_axe()


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


@pytest.fixture(scope="package")
def client(cluster: Cluster) -> Iterator[Client]:
    """A client that checks in the cluster what the browser changed."""
    with Client(parse_bootstrap(cluster.bootstrap_servers)) as connected:
        yield connected


@pytest.fixture(scope="package")
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture(scope="package")
def console(
    browser: Any, cluster: Cluster, registry: FakeRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("console")
    (directory / PIPELINE).write_text(
        f"{{name: shop, bootstrap: '{cluster.bootstrap_servers}', sources: {{orders: {{topic: not-there}}}},"
        " sinks: {copy: {from: orders, topic: not-there-either}}, state: state}"
    )
    job = f"ingest nowhere {directory / TABLE} --conf spark.a.secret=ungeziefer"
    named = ("--pipeline", str(directory / PIPELINE), "--job", job)
    options = ("--schema-registry", f"http://{registry.address}", *named)
    process = ConsoleProcess(cluster.bootstrap_servers, directory, *options)
    yield process
    process.stop()
    assert "Traceback" not in process.log, process.log


@pytest.fixture(
    scope="package", params=[DESKTOP, pytest.param(PHONE, marks=pytest.mark.tier("proof"))], ids=["desktop", "phone"]
)
def visitor(request: pytest.FixtureRequest, browser: Any, axe: str, console: ConsoleProcess) -> Iterator[Visitor]:
    """A desktop window, then a phone window."""
    visitor = Visitor(browser, console.address, axe, request.param)
    yield visitor
    visitor.close()


@pytest.fixture(scope="package")
def at_desk(browser: Any, axe: str, console: ConsoleProcess) -> Iterator[Visitor]:
    visitor = Visitor(browser, console.address, axe, DESKTOP)
    yield visitor
    visitor.close()


@pytest.fixture(autouse=True)
def no_console_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in ("visitor", "at_desk"):
        if name in request.fixturenames:
            visitor: Visitor = request.getfixturevalue(name)
            problems, visitor.problems = visitor.problems, []
            assert problems == []


@pytest.fixture(scope="package")
def new_topic(client: Client) -> Callable[..., str]:
    """Create a topic and produce values to its first partition."""

    def make(name: str, *values: bytes, partitions: int = 1, replicas: int = 3, **configs: str) -> str:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        Admin(client).create_topic(name, partitions=partitions, replication_factor=replicas, configs=named)
        eventually(lambda: name in client.layout([name]).topics)
        if values:
            producer = Producer(client)
            for number, value in enumerate(values):
                record = Record(b"key-%d" % number, value, time.time_ns() // 1_000_000)
                producer.add(name, record, 0)
            producer.flush()
        return name

    return make


@pytest.fixture(scope="package")
def many_topics(new_topic: Callable[..., str]) -> str:
    """The common prefix of 27 topics, two more than fit on a page."""
    for number in range(27):
        new_topic(f"many-{number:02}")
    return "many-"


def eventually(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"condition not met within {seconds:g} s"
        time.sleep(0.05)


def end_of(client: Client, topic: str, partition: int = 0) -> int:
    where = TopicPartition(topic, partition)
    return Admin(client).offsets({where: -1})[where]
