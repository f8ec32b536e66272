"""What the pipelines need: Java 17, the jars of Spark's Kafka connector, and a broker."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.runtime.errors import PipelineError
from examples.runtime.jars import connector_jars, jars_directory
from odradek.client.address import parse_bootstrap
from odradek.client.cluster import Cluster
from tests import components
from tests.java import require_java
from tests.node_process import KEEPS_OLD_RECORDS, NodeProcess
from tests.odradek_process import OdradekProcess
from tests.rest_catalog import RestCatalogServer, require_rest_catalog
from tests.spark.quick_spark import quick_environment


@pytest.fixture(scope="session")
def java() -> None:
    require_java()


@pytest.fixture(scope="session", autouse=True)
def quick_spark() -> Iterator[None]:
    """For every Spark that a test starts, where there is Java."""
    with pytest.MonkeyPatch.context() as patch:
        if shutil.which("java"):
            for name, text in quick_environment().items():
                patch.setenv(name, text)
        yield


@pytest.fixture(scope="session")
def spark_jars(java: None) -> tuple[Path, ...]:
    return components.require("Spark's Kafka connector", _jars)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = OdradekProcess(tmp_path_factory.mktemp("node"), properties=KEEPS_OLD_RECORDS)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture(scope="module")
def cluster(broker: NodeProcess) -> Iterator[Cluster]:
    with Cluster(parse_bootstrap(broker.bootstrap)) as opened:
        yield opened


@pytest.fixture(scope="module")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    """Apache Iceberg's REST catalog, without the front that authenticates clients."""
    server = RestCatalogServer(require_rest_catalog(), tmp_path_factory.mktemp("catalog"))
    try:
        yield server.start()
    finally:
        server.kill()


def _jars() -> tuple[Path, ...]:
    try:
        return tuple(connector_jars(jars_directory(), on_fetch=lambda jar: None))
    except PipelineError as problem:
        raise components.ComponentMissing(str(problem)) from problem
