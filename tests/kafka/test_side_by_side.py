"""The same requests to Odradek and to Apache Kafka: equal answers but for ids and times.

What Kafka answers is kept in `tests/golden/wire`, so that Odradek is compared everywhere, also without Java; where
Java is, Kafka itself is asked again. Changed scenarios are recorded with
`make test ARGS="-m kafka -k side_by_side --record-transcripts"`.

Where Odradek differs on purpose, `<scenario>.differences.txt` holds exactly the lines that do, and
`docs/differences.md` the reason.
"""

import difflib
from collections.abc import Iterator

import pytest

from tests.components import ROOT
from tests.kafka.apache_kafka import ApacheKafka
from tests.kafka.side_by_side import scenarios as _all_scenarios  # noqa: F401 (registers them)
from tests.kafka.side_by_side.conversation import Conversation, scenarios
from tests.node_process import KEEPS_OLD_RECORDS, NodeProcess
from tests.odradek_process import OdradekProcess

GOLDEN = ROOT / "tests" / "golden" / "wire"


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp(request.param)
    log_dirs = [directory / "first", directory / "second"]
    node: NodeProcess
    if request.param == "kafka":
        libs = request.getfixturevalue("apache_kafka_libs")
        node = ApacheKafka(libs, directory, properties=KEEPS_OLD_RECORDS, log_dirs=log_dirs)
    else:
        node = OdradekProcess(directory, properties=KEEPS_OLD_RECORDS, log_dirs=log_dirs)
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.mark.parametrize("name", sorted(scenarios))
def test_answers_equal_kafkas(name: str, node: NodeProcess, request: pytest.FixtureRequest) -> None:
    talk = Conversation(node)
    try:
        scenarios[name](talk)
    finally:
        talk.end()
    golden_file = GOLDEN / f"{name}.txt"
    if node.name == "kafka":
        if request.config.getoption("--record-transcripts"):
            golden_file.write_text(talk.text)
        accepted = ""
    else:
        accepted_file = GOLDEN / f"{name}.differences.txt"
        accepted = accepted_file.read_text() if accepted_file.exists() else ""
    found = _differences(golden_file.read_text(), talk.text)
    if found != accepted:
        pytest.fail(_explain(found, accepted, node.name), pytrace=False)


def _differences(expected: str, answered: str) -> str:
    """The lines that differ, each group under the question it answers; empty when all is equal."""
    lines: list[str] = []
    question = last_question = ""
    for line in difflib.ndiff(expected.splitlines(), answered.splitlines()):
        if line.startswith("  > "):
            question = line[2:]
        elif line[0] in "-+":
            if question != last_question:
                lines.append(question)
                last_question = question
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _explain(found: str, accepted: str, broker: str) -> str:
    if not accepted:
        return f"- Apache Kafka 4.3.1\n+ {broker}\n\n{found}"
    changes = difflib.unified_diff(accepted.splitlines(), found.splitlines(), "accepted", "found", lineterm="", n=1)
    return "the differences from Kafka are not the accepted ones:\n" + "\n".join(changes)
