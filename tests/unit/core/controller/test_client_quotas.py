"""AlterClientQuotas: `tests/kafka/side_by_side` compares all messages with Kafka's."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import NewTopic, QuotaAlteration
from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.mutations import MutationQuota
from odradek.core.quotas.node_quotas import unlimited_quotas
from tests.unit.core.controller.cluster import Cluster

BOB: QuotaEntityKey = (("user", "bob"),)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def alter(
    cluster: Cluster, entity: QuotaEntityKey, *changes: tuple[str, float | None], validate_only: bool = False
) -> KafkaError | None:
    alteration = QuotaAlteration(entity, changes)
    return cluster.take(cluster.controller.alter_client_quotas([alteration], validate_only=validate_only))[entity]


def limits(cluster: Cluster, entity: QuotaEntityKey = BOB) -> dict[str, float]:
    return dict(cluster.image.client_quotas.get(entity) or {})


def test_limits_are_set_and_removed(cluster: Cluster) -> None:
    assert alter(cluster, BOB, ("producer_byte_rate", 5.0), ("request_percentage", 1.5)) is None
    assert limits(cluster) == {"producer_byte_rate": 5.0, "request_percentage": 1.5}
    assert alter(cluster, BOB, ("producer_byte_rate", None), ("consumer_byte_rate", None)) is None
    assert limits(cluster) == {"request_percentage": 1.5}
    assert alter(cluster, BOB, ("request_percentage", None)) is None
    assert BOB not in cluster.image.client_quotas


def test_only_changes_are_written(cluster: Cluster) -> None:
    alter(cluster, BOB, ("producer_byte_rate", 5.0))
    same = QuotaAlteration(BOB, [("producer_byte_rate", 5.0), ("consumer_byte_rate", None)])
    assert cluster.controller.alter_client_quotas([same], validate_only=False).records == ()


def test_validation_writes_nothing(cluster: Cluster) -> None:
    assert alter(cluster, BOB, ("producer_byte_rate", 5.0), validate_only=True) is None
    assert limits(cluster) == {}


def test_invalid_change_rejects_the_changes_of_its_entity_only(cluster: Cluster) -> None:
    other: QuotaEntityKey = (("client-id", None),)
    alterations = [
        QuotaAlteration(BOB, [("producer_byte_rate", 5.0), ("consumer_byte_rate", 0.0)]),
        QuotaAlteration(other, [("producer_byte_rate", 5.0)]),
    ]
    results = cluster.take(cluster.controller.alter_client_quotas(alterations, validate_only=False))
    error = results[BOB]
    assert error is not None and error.code is ErrorCode.invalid_request
    assert results[other] is None
    assert (limits(cluster), limits(cluster, other)) == ({}, {"producer_byte_rate": 5.0})


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "[::1]", "broker-1.example.com", "localhost", None])
def test_addresses_and_host_names_are_accepted(cluster: Cluster, address: str | None) -> None:
    assert alter(cluster, (("ip", address),), ("connection_creation_rate", 5.0)) is None


@pytest.mark.parametrize("address", ["10.0.0", "300.1.1.1", "a b", "-", "bob@host", "x" * 300])
def test_other_texts_are_no_addresses(cluster: Cluster, address: str) -> None:
    error = alter(cluster, (("ip", address),), ("connection_creation_rate", 5.0))
    assert error is not None and error.message == f"{address} is not a valid IP or resolvable host."


def test_topics_above_the_mutation_rate_are_refused(cluster: Cluster) -> None:
    quotas = unlimited_quotas()
    quotas.change({BOB: {"controller_mutation_rate": 1.0}})
    quota = MutationQuota(quotas.mutations.find("bob", "app", 0), lambda: 0, is_strict=True)
    topics = [NewTopic(name, 6, 1, [], []) for name in ("a", "b", "c")]
    results = cluster.take(cluster.controller.create_topics(topics, validate_only=False, quota=quota))
    refused = results["c"]
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.throttling_quota_exceeded
    assert set(cluster.image.topics_by_name) == {"a", "b"}
    (topic,) = (cluster.image.topics_by_name["a"],)
    deleted = cluster.take(cluster.controller.delete_topics([topic.id], quota=quota))
    assert deleted[topic.id] is not None
    assert "a" in cluster.image.topics_by_name
