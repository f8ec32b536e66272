"""Each request with and without each permission: Odradek's responses equal Kafka's, and both are those of the tables.

`tests/golden/authorization.txt` contains Kafka's responses. They are recorded with
`make test ARGS="-m kafka -k authorization_matrix --record-transcripts"`.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.components import ROOT
from tests.kafka.apache_kafka import ApacheKafka
from tests.kafka.authorization_matrix import CASES, Matrix, SecuredNode, title_of
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.unit.broker.apis.authorization_cases import Denial

GOLDEN = ROOT / "tests" / "golden" / "authorization.txt"
Played = dict[str, tuple[list[str], Any, Denial | None]]


@pytest.fixture(scope="module", params=["odradek", pytest.param("kafka", marks=pytest.mark.kafka)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    directory = tmp_path_factory.mktemp(request.param)
    node: NodeProcess
    if request.param == "kafka":
        node = ApacheKafka(request.getfixturevalue("apache_kafka_libs"), directory)
    else:
        node = OdradekProcess(directory)
    secured = SecuredNode(node)
    try:
        node.start()
        yield secured
    finally:
        node.remove()


@pytest.fixture(scope="module")
def played(node: SecuredNode, request: pytest.FixtureRequest) -> Played:
    """The runs of all cases, by title."""
    runs: Played = {}
    with Matrix(node) as matrix:
        for case in CASES:
            for run, lines, found, denial in matrix.play(case):
                runs[f"{title_of(case)}: {run}"] = lines, found, denial
    if node.node.name == "kafka" and request.config.getoption("--record-transcripts"):
        GOLDEN.write_text("".join(_section(title, lines) for title, (lines, _, _) in runs.items()))
    return runs


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([f"> {title}", *(f"  {line}" for line in lines)]) + "\n"


def _golden_sections() -> dict[str, str]:
    sections: dict[str, str] = {}
    for part in GOLDEN.read_text().split("> ")[1:]:
        title, _, _ = part.partition("\n")
        sections[title] = f"> {part}"
    return sections


@pytest.mark.parametrize("case", CASES, ids=title_of)
def test_responses_equal_kafkas(case: Any, played: Played) -> None:
    golden = _golden_sections()
    mine = {title: one for title, one in played.items() if title.startswith(f"{title_of(case)}: ")}
    assert mine
    for title, (lines, _, _) in mine.items():
        assert _section(title, lines) == golden.get(title)


@pytest.mark.parametrize("case", CASES, ids=title_of)
def test_denials_are_those_of_the_table(case: Any, played: Played) -> None:
    denials = 0
    for title, (_, found, denial) in played.items():
        if title.startswith(f"{title_of(case)}: ") and denial is not None:
            assert _comparable(found) == _comparable(denial.found), title
            denials += 1
    assert denials


def _comparable(value: Any) -> Any:
    """Hosts are chosen by the node."""
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    return "<host>" if value in ("127.0.0.1", "plaintext-1") else value
