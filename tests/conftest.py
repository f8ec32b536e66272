"""Components that some tests need, as fixtures; what is missing is named at the end of the run."""

from pathlib import Path

import pytest

from tests import components
from tests.cluster.networks import find_namespaces
from tests.kafka.apache_kafka import kafka_libs

# A test that asks for one of these fixtures gets the marker, so that `-m "not kafka"` leaves it out.
_MARKER_OF_FIXTURE = {"apache_kafka_libs": "kafka", "kcat": "kcat", "kafkajs": "node", "namespaces": "netns"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-transcripts", action="store_true", help="write down what Apache Kafka answers as tests/golden/wire"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, marker in _MARKER_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not components.missing:
        return
    terminalreporter.section("missing components")
    outcomes = [*terminalreporter.getreports("skipped"), *terminalreporter.getreports("failed")]
    outcomes += terminalreporter.getreports("error")
    for name in components.missing:
        reason = components.skip_reason(name)
        lost = sum(reason in report.longreprtext or reason in str(report.longrepr) for report in outcomes)
        terminalreporter.write_line(f"{name}: {components.missing[name]}; {lost} tests did not run")


@pytest.fixture(scope="session")
def apache_kafka_libs() -> Path:
    return components.require("Apache Kafka 4.3.1", kafka_libs)


@pytest.fixture(scope="session")
def kcat() -> str:
    return components.require("kcat", lambda: components.find_program("kcat"))


@pytest.fixture(scope="session")
def kafkajs() -> Path:
    """The node_modules directory that holds kafkajs."""
    return components.require("kafkajs", components.kafkajs_modules)


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Networks of one's own may be made here."""
    components.require("network namespaces", find_namespaces)
