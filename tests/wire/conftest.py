"""The broker under test; with --reference also Apache Kafka, to show that the tests expect what Kafka does."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.apache_kafka import REFERENCE, ApacheKafka, KafkaTools
from tests.node_process import KEEPS_OLD_RECORDS, NodeProcess
from tests.odradek_process import OdradekProcess

_numbers = itertools.count(1)

# The session of a killed member expires soon.
_PROPERTIES = {"group.min.session.timeout.ms": "1000", **KEEPS_OLD_RECORDS}


@pytest.fixture(scope="session", params=["odradek", pytest.param("kafka", marks=REFERENCE)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp(request.param)
    node: NodeProcess
    if request.param == "kafka":
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory, properties=_PROPERTIES)
    else:
        node = OdradekProcess(directory, properties=_PROPERTIES)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that only this test uses; the topic is not created."""
    words = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.originalname)
    return f"{words}-{next(_numbers)}"


@pytest.fixture
def tools(broker: NodeProcess, apache_kafka_libs: Path) -> KafkaTools:
    return KafkaTools(apache_kafka_libs, broker.bootstrap)
