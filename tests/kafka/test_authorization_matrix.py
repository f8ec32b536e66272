"""Each request with and without each permission: Odradek's responses equal Kafka's, and both are those of the tables.

`tests/golden/authorization.txt` contains Kafka's responses. They are recorded with
`make test ARGS="-m kafka -k authorization_matrix --record-transcripts"`.
"""

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from odradek.core.security.resources import Operation, ResourceType
from tests.components import ROOT
from tests.kafka.apache_kafka import ApacheKafka
from tests.kafka.authorization_matrix import CASES, READ_U, Matrix, fetch_fields, title_of
from tests.node_process import NodeProcess
from tests.odradek_process import OdradekProcess
from tests.secured_node import SecuredNode
from tests.unit.broker.apis.authorization_cases import DESCRIBE_T, NONE, READ_T, TOPIC_DENIED, WRITE_T, Denial
from tests.unit.fake_access import Grant

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
def matrix(node: SecuredNode) -> Iterator[Matrix]:
    with Matrix(node) as one:
        yield one


@pytest.fixture(scope="module")
def played(node: SecuredNode, matrix: Matrix, request: pytest.FixtureRequest) -> Played:
    """The runs of all cases, by title."""
    runs: Played = {}
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


# ---- permissions that change, and requests that wait


def fetched(response: Any) -> dict[str, ErrorCode]:
    return {one.topic: part.error_code for one in response.responses for part in one.partitions}


def test_revoked_permission_applies_to_a_fetch_session(matrix: Matrix, played: Played) -> None:
    matrix.grant([READ_T, READ_U])
    full = matrix.client.request(1, 12, fetch_fields(matrix.state, "t", "u", session_epoch=0))
    assert fetched(full) == {"t": NONE, "u": NONE}
    session = {"session_id": full.session_id}
    matrix.grant([READ_T])
    for epoch in (1, 2):
        response = matrix.client.request(1, 12, fetch_fields(matrix.state, session_epoch=epoch, **session))
        assert fetched(response)["u"] is TOPIC_DENIED
    matrix.grant([READ_T, READ_U])
    response = matrix.client.request(1, 12, fetch_fields(matrix.state, session_epoch=3, **session))
    assert fetched(response)["u"] is NONE


def test_fetch_waits_only_for_allowed_partitions(matrix: Matrix, played: Played) -> None:
    matrix.grant([READ_U])
    (topic,) = matrix.client.request(1, 12, fetch_fields(matrix.state, "u")).responses
    # From an older segment Kafka responds at once.
    end = topic.partitions[0].high_watermark
    grants: tuple[Grant, ...]
    for grants, waits in (((), False), ((READ_U,), True)):
        matrix.grant(grants)
        begin = time.monotonic()
        fields = fetch_fields(matrix.state, "t", "u", offset=end, max_wait=1000)
        response = matrix.client.request(1, 12, fields)
        assert (time.monotonic() - begin >= 0.9) == waits
        assert fetched(response)["t"] is TOPIC_DENIED


@pytest.mark.parametrize("grant", [WRITE_T, (Operation.ALL, ResourceType.TOPIC, "other")])
def test_idempotent_producer_may_write_some_topic_instead(matrix: Matrix, played: Played, grant: Grant) -> None:
    fields = {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
    matrix.grant([(Operation.READ, ResourceType.TOPIC, "t")])
    assert matrix.client.request(22, 4, fields).error_code is ErrorCode.cluster_authorization_failed
    matrix.grant([grant])
    assert matrix.client.request(22, 4, fields).error_code is NONE


@pytest.mark.parametrize(("operation", "others"), [(Operation.READ, Operation.DESCRIBE), (Operation.ALL, None)])
def test_authorized_operations_of_groups(
    matrix: Matrix, played: Played, operation: Operation, others: Operation | None
) -> None:
    matrix.grant([(operation, ResourceType.GROUP, "g"), (operation, ResourceType.GROUP, "members"), DESCRIBE_T])
    expected = 3400 if others is None else 1 << operation | 1 << others
    fields = {"include_authorized_operations": True}
    (group,) = matrix.client.request(15, 5, fields | {"groups": ["g"]}).groups
    assert group.authorized_operations == expected
    (group,) = matrix.client.request(69, 1, fields | {"group_ids": ["members"]}).groups
    assert group.authorized_operations == expected


def test_regular_expression_matches_only_topics_that_the_member_may_describe(matrix: Matrix, played: Played) -> None:
    matrix.grant([(Operation.READ, ResourceType.GROUP, "patterns"), DESCRIBE_T])
    member = {"group_id": "patterns", "member_id": "m1", "topic_partitions": []}
    joining = {"member_epoch": 0, "rebalance_timeout": 60_000, "subscribed_topic_names": []}
    response = matrix.client.request(68, 1, member | joining | {"subscribed_topic_regex": "t|u"})
    deadline = time.monotonic() + 30
    assigned: set[UUID] = set()
    while not assigned and time.monotonic() < deadline:
        assert response.error_code is NONE, response
        if response.assignment is not None:
            assigned = {one.topic_id for one in response.assignment.topic_partitions}
        time.sleep(0.1)
        beat = {"member_epoch": response.member_epoch, "rebalance_timeout": -1, "subscribed_topic_names": None}
        response = matrix.client.request(68, 1, member | beat)
    assert assigned == {matrix.state.topic_ids["t"]}
