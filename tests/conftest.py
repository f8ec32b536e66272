"""Configuration of all tests: required components, measurements, and which tests run in parallel.

The summary of a run lists missing components and measurements. Tiers of tests and reruns: tests/tiers.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import components, freed_clients
from tests.cluster.networks import find_namespaces
from tests.kafka.apache_kafka import kafka_libs, kafka_streams_libs
from tests.tiers.folders import folder_of, is_deterministic, lane_of

freed_clients.install()

pytest_plugins = ["tests.tiers.selection", "tests.tiers.summary", "tests.tiers.flaky", "pytester"]

# The duration of one example depends on the computer, not on the code under test.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few examples", settings.get_profile("odradek"), max_examples=25)

# A test that uses one of these fixtures gets the marker, so that `-m "not kafka"` leaves it out.
_MARKER_OF_FIXTURE = {
    "apache_kafka_libs": "kafka",
    "streams_libs": "kafka",
    "kcat": "kcat",
    "kafkajs": "node",
    "namespaces": "netns",
}

_POLITE = 5
_MISSING = "missing components"
_MEASURED = "measured"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reference", action="store_true", help="run tests against Apache Kafka too, where they are about Odradek"
    )
    parser.addoption(
        "--record-transcripts", action="store_true", help="record Apache Kafka's responses in tests/golden/wire"
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("odradek" if config.getoption("--tier") == "proof" else "few examples")
    # A shell that runs this in the background ignores SIGINT, and so would every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """PySpark's loggers do not propagate, so pytest adds its handlers to them, and then all of them write JSON."""
    capture = item.config.pluginmanager.getplugin("logging-plugin")
    if capture is not None:
        capture.caplog_handler.setFormatter(capture.formatter)
        capture.report_handler.setFormatter(capture.formatter)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--reference"):
        # The behaviour of Apache Kafka 4.3.1 does not change, and checking it again takes minutes.
        left_out = [item for item in items if item.get_closest_marker("reference")]
        items[:] = [item for item in items if not item.get_closest_marker("reference")]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        for fixture, marker in _MARKER_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    if hasattr(config, "workerinput"):
        # Lanes take longest, so they start first; deterministic tests are short and fill the gaps at the end.
        items.sort(key=lambda item: (not lane_of(item.nodeid), is_deterministic(item.nodeid)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if hasattr(item.config, "workerinput"):
        # Without the privilege to raise its priority again, a worker keeps the lower one.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, _POLITE if is_deterministic(item.nodeid) else 0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_MISSING] = components.missing


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            """Tests of one scope run one after the other, on one worker.

            Tests without a lane run file by file, except the long ones of the simulator. Deterministic ones have a
            lower priority, so that they do not slow down tests of clocks, processes and sockets.
            """
            return lane_of(nodeid) or (nodeid if folder_of(nodeid) == "sim" else nodeid.split("::")[0])

    return Lanes(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    components.missing.update(getattr(node, "workeroutput", {}).get(_MISSING, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for outcome in ("passed", "failed", "error", "skipped")
        for report in terminalreporter.getreports(outcome)
    ]
    tests = [report for report in reports if isinstance(report, pytest.TestReport)]
    measured = [text for report in tests for name, text in report.user_properties if name == _MEASURED]
    if measured:
        terminalreporter.section(_MEASURED)
        for text in dict.fromkeys(measured):
            terminalreporter.write_line(str(text))
    if components.missing:
        terminalreporter.section(_MISSING)
    for name in components.missing:
        reason = components.skip_reason(name)
        lost = sum(reason in report.longreprtext or reason in str(report.longrepr) for report in reports)
        terminalreporter.write_line(f"{name}: {components.missing[name]}; {lost} tests did not run")


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Records a line for the summary of the run, whether or not the test passes."""
    return lambda text: record_property(_MEASURED, text)


@pytest.fixture(scope="session")
def apache_kafka_libs() -> Path:
    return components.require("Apache Kafka 4.3.1", kafka_libs)


@pytest.fixture(scope="session")
def streams_libs() -> Path:
    return components.require("Kafka Streams 4.3.1", kafka_streams_libs)


@pytest.fixture(scope="session")
def kcat() -> str:
    return components.require("kcat", lambda: components.find_program("kcat"))


@pytest.fixture(scope="session")
def kafkajs() -> Path:
    """The node_modules directory that holds kafkajs."""
    return components.require("kafkajs", components.kafkajs_modules)


@pytest.fixture(scope="session")
def quix_streams_python() -> Path:
    """The interpreter of an environment with Quix Streams in it."""
    return components.require("Quix Streams", components.quix_streams_python)


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips the test if network namespaces cannot be created."""
    components.require("network namespaces", find_namespaces)
