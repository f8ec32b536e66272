"""The same requests to Odradek and to Apache Kafka: equal answers but for ids and times.

What Kafka answers is kept in `tests/golden/wire`, so that Odradek is compared everywhere, also without Java; where
Java is, Kafka itself is asked again. Changed scenarios are recorded with
`make test ARGS="-m kafka -k side_by_side --record-transcripts"`.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components import ROOT
from tests.kafka.apache_kafka import ApacheKafka
from tests.kafka.side_by_side import scenarios as _all_scenarios  # noqa: F401 (registers them)
from tests.kafka.side_by_side.conversation import Conversation, scenarios
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess

GOLDEN = ROOT / "tests" / "golden" / "wire"
CONTEXT_LINES = 6


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp(request.param)
    log_dirs = [directory / "first", directory / "second"]
    node: NodeProcess
    if request.param == "kafka":
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory, log_dirs=log_dirs)
    else:
        node = OdradekProcess(directory, log_dirs=log_dirs)
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
    if node.name == "kafka" and request.config.getoption("--record-transcripts"):
        golden_file.write_text(talk.text)
    _compare(golden_file, talk.text, node.name)


def _compare(golden_file: Path, answered: str, broker: str) -> None:
    expected = golden_file.read_text()
    if answered == expected:
        return
    difference = difflib.unified_diff(
        expected.splitlines(), answered.splitlines(), "Apache Kafka 4.3.1", broker, lineterm="", n=CONTEXT_LINES
    )
    pytest.fail("\n".join(_with_questions(list(difference), answered.splitlines())), pytrace=False)


def _with_questions(difference: list[str], answered: list[str]) -> Iterator[str]:
    """Each hunk opens with the question that was asked, which may stand far above it."""
    for line in difference:
        yield line
        if line.startswith("@@"):
            start = int(line.split("+")[1].split(",")[0].split(" ")[0])
            asked = [text for text in answered[:start] if text.startswith("> ")]
            if asked:
                yield f" {asked[-1]}"
