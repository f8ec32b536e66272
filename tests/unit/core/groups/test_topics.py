"""The hash of topics, as Apache Kafka 4.3.1 writes it, and regular expressions."""

import pytest

from odradek.base.errors import KafkaError
from odradek.core.groups.regular_expressions import matcher
from odradek.core.groups.topics import TopicHashes
from tests.unit.core.groups.cluster import Cluster

OF_ONE = 8469629257005185555
OF_TWO = 330666539370131299


def test_topic_hash_equals_kafkas() -> None:
    cluster = Cluster()
    cluster.create("a", 2, [["r1", "r2"], []])
    cluster.create("größer", 1)
    hashes = TopicHashes(cluster)
    assert hashes.of([]) == hashes.of(["absent"]) == 0
    assert hashes.of(["a"]) == OF_ONE
    assert hashes.of(["größer", "absent", "a"]) == OF_TWO


def test_topic_hash_changes_with_partitions_and_racks() -> None:
    cluster = Cluster(a=1)
    hashes = TopicHashes(cluster)
    before = hashes.of(["a"])
    cluster.create("a", 2)
    assert hashes.of(["a"]) == before
    hashes.forget(["a"])
    assert hashes.of(["a"]) != before


@pytest.mark.parametrize(
    ("regex", "name", "matches"),
    [
        ("a.*", "abc", True),
        ("b", "abc", False),
        ("a|abc", "abc", True),
        ("", "abc", False),
        (r"\w+-\d{2}", "orders-17", True),
        ("(?i)ABC", "abc", True),
    ],
)
def test_regular_expression_matches_the_whole_name(regex: str, name: str, matches: bool) -> None:
    assert matcher(regex)(name) == matches


@pytest.mark.parametrize("regex", ["(?=a)", r"(a)\1", "a" * 1001 + "{1000}{1000}", "(?<", "[[:nothing:]]", "\ud800"])
def test_invalid_expression_is_rejected(regex: str) -> None:
    with pytest.raises(KafkaError, match="is not a valid regular expression"):
        matcher(regex)
