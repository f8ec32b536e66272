"""The same requests to Odradek and to Apache Kafka: equal responses except for IDs and times.

`tests/golden/wire` contains Kafka's responses, so that Odradek is compared with them also without Java; with Java, the
requests are sent to Kafka again. Changed scenarios are recorded with
`make test ARGS="-m kafka -k side_by_side --record-transcripts"`.

Where Odradek differs on purpose, `<scenario>.differences.txt` holds exactly the lines that do, and
`docs/differences.md` the reason.
"""

import difflib
from collections.abc import Iterator, Mapping

import pytest

from tests.components import ROOT
from tests.kafka.apache_kafka import ApacheKafka
from tests.kafka.side_by_side import scenarios as _all_scenarios  # noqa: F401 (registers them)
from tests.kafka.side_by_side.conversation import Conversation, Scenario, scenarios, scenarios_with_authorizer
from tests.node_process import KEEPS_OLD_RECORDS, NodeProcess
from tests.odradek_process import OdradekProcess

GOLDEN = ROOT / "tests" / "golden" / "wire"


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    yield from _running(request, tmp_path_factory, KEEPS_OLD_RECORDS)


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def node_with_authorizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeProcess]:
    yield from _running(request, tmp_path_factory, KEEPS_OLD_RECORDS | AUTHORIZER)


def _running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp(request.param)
    log_dirs = [directory / "first", directory / "second"]
    node: NodeProcess
    if request.param == "kafka":
        libs = request.getfixturevalue("apache_kafka_libs")
        node = ApacheKafka(libs, directory, properties=properties, log_dirs=log_dirs)
    else:
        node = OdradekProcess(directory, properties=properties, log_dirs=log_dirs)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.mark.parametrize("name", sorted(scenarios))
def test_responses_equal_kafkas(name: str, node: NodeProcess, request: pytest.FixtureRequest) -> None:
    _compare(name, scenarios[name], node, request)


@pytest.mark.parametrize("name", sorted(scenarios_with_authorizer))
def test_responses_of_a_node_with_authorizer_equal_kafkas(
    name: str, node_with_authorizer: NodeProcess, request: pytest.FixtureRequest
) -> None:
    _compare(name, scenarios_with_authorizer[name], node_with_authorizer, request)


def _compare(name: str, scenario: Scenario, node: NodeProcess, request: pytest.FixtureRequest) -> None:
    text = _play(scenario, node)
    golden_file = GOLDEN / f"{name}.txt"
    if node.name == "kafka":
        if request.config.getoption("--record-transcripts"):
            golden_file.write_text(text)
        accepted = ""
    else:
        accepted_file = GOLDEN / f"{name}.differences.txt"
        accepted = accepted_file.read_text() if accepted_file.exists() else ""
    found = _differences(golden_file.read_text(), text)
    if found != accepted:
        pytest.fail(_explain(found, accepted, node.name), pytrace=False)


@pytest.fixture(scope="module")
def full_validation_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    properties = {**KEEPS_OLD_RECORDS, "record.validation": "full"}
    node = OdradekProcess(tmp_path_factory.mktemp("full-validation"), properties=properties)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.mark.parametrize("name", sorted(name for name in scenarios if name.startswith("produce_")))
def test_produce_responses_equal_kafkas_with_full_validation(name: str, full_validation_node: NodeProcess) -> None:
    accepted_file = GOLDEN / f"{name}.full_validation.differences.txt"
    accepted = accepted_file.read_text() if accepted_file.exists() else ""
    found = _differences((GOLDEN / f"{name}.txt").read_text(), _play(scenarios[name], full_validation_node))
    if found != accepted:
        pytest.fail(_explain(found, accepted, full_validation_node.name), pytrace=False)


def _play(scenario: Scenario, node: NodeProcess) -> str:
    """The transcript of a scenario."""
    talk = Conversation(node)
    try:
        scenario(talk)
    finally:
        talk.end()
    return talk.text


def _differences(expected: str, transcript: str) -> str:
    """The lines that differ, grouped under their requests; empty if there is no difference."""
    lines: list[str] = []
    request = last_request = ""
    for line in difflib.ndiff(expected.splitlines(), transcript.splitlines()):
        if line.startswith("  > "):
            request = line[2:]
        elif line[0] in "-+":
            if request != last_request:
                lines.append(request)
                last_request = request
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _explain(found: str, accepted: str, broker: str) -> str:
    if not accepted:
        return f"- Apache Kafka 4.3.1\n+ {broker}\n\n{found}"
    changes = difflib.unified_diff(accepted.splitlines(), found.splitlines(), "accepted", "found", lineterm="", n=1)
    return "the differences from Kafka are not the accepted ones:\n" + "\n".join(changes)
