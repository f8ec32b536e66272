from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import DEFAULT, NewPartitions, NewTopic, TopicCreated
from odradek.core.metadata.records import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from tests.unit.core.controller.cluster import Cluster, directory_of


def refusal(result: object) -> tuple[ErrorCode, str | None]:
    assert isinstance(result, KafkaError)
    return result.code, result.message


class TestCreation:
    def test_defaults_come_from_the_configuration(self) -> None:
        cluster = Cluster(brokers=3, num_partitions="4", default_replication_factor="3")
        created = cluster.create("orders")
        assert isinstance(created, TopicCreated)
        assert (created.partition_count, created.replication_factor) == (4, 3)
        topic = cluster.image.topics_by_name["orders"]
        assert topic.id == created.topic_id
        assert len(topic.partitions) == 4
        assert all(sorted(one.replicas) == [1, 2, 3] and one.isr == one.replicas for one in topic.partitions.values())

    def test_records_in_kafkas_order(self) -> None:
        cluster = Cluster()
        topic = NewTopic("orders", 2, 1, [], [("retention.ms", "5"), ("min.insync.replicas", "1")])
        kinds = [type(record) for record in cluster.controller.create_topics([topic], validate_only=False).records]
        assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord]

    def test_a_broker_with_one_directory_gets_the_replica_there(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        assert cluster.partition("orders").directories == (directory_of(1),)

    def test_replica_on_a_broker_with_several_directories_is_unassigned(self) -> None:
        cluster = Cluster(brokers=0)
        cluster.register(1, directories=(directory_of(1), directory_of(1, 1)))
        cluster.beat(1)
        cluster.create("orders", 1, 1)
        assert cluster.partition("orders").directories == (None,)

    def test_validate_only_writes_nothing(self) -> None:
        cluster = Cluster()
        assert isinstance(cluster.create("orders", 1, 1, validate_only=True), TopicCreated)
        assert len(cluster.image.topics_by_name) == 0

    def test_effective_configs_are_sorted_and_know_their_source(self) -> None:
        created = Cluster().create("orders", configs={"retention.ms": "5"})
        assert isinstance(created, TopicCreated)
        names = [entry.name for entry in created.configs]
        assert names == sorted(names)
        by_name = {entry.name: entry for entry in created.configs}
        assert (by_name["retention.ms"].value, by_name["retention.ms"].source) == ("5", 1)
        assert (by_name["min.insync.replicas"].value, by_name["min.insync.replicas"].source) == ("1", 3)
        assert (by_name["segment.bytes"].value, by_name["segment.bytes"].source) == ("1073741824", 5)

    @pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "no/slash", "no space", "ä", "new\nline"])
    def test_illegal_names(self, name: str) -> None:
        code, message = refusal(Cluster().create(name))
        assert code is ErrorCode.invalid_topic_exception
        assert message is not None
        assert message.startswith("Topic name is invalid: ")

    def test_colliding_topic_names_are_rejected(self) -> None:
        cluster = Cluster()
        cluster.create("a.b_c")
        assert refusal(cluster.create("a_b.c")) == (
            ErrorCode.invalid_topic_exception,
            "Topic 'a_b.c' collides with existing topic: a.b_c",
        )
        assert refusal(cluster.create("a.b_c")) == (
            ErrorCode.topic_already_exists,
            "Topic 'a.b_c' already exists.",
        )
        cluster.take(cluster.controller.delete_topics([cluster.image.topics_by_name["a.b_c"].id]))
        assert isinstance(cluster.create("a_b.c"), TopicCreated)

    def test_two_new_names_may_collide_within_one_request_as_in_kafka(self) -> None:
        cluster = Cluster()
        topics = [NewTopic(name, 1, 1, [], []) for name in ("x.y", "x_y")]
        results = cluster.take(cluster.controller.create_topics(topics, validate_only=False))
        assert all(isinstance(result, TopicCreated) for result in results.values())

    @pytest.mark.parametrize("partitions", [0, -2])
    def test_bad_partition_counts(self, partitions: int) -> None:
        assert refusal(Cluster().create("t", partitions, 1))[0] is ErrorCode.invalid_partitions

    @pytest.mark.parametrize("replicas", [0, -2, 2, 32767])
    def test_bad_replication_factors(self, replicas: int) -> None:
        assert refusal(Cluster().create("t", 1, replicas))[0] is ErrorCode.invalid_replication_factor

    def test_creation_without_brokers_is_rejected(self) -> None:
        code, message = refusal(Cluster(brokers=0).create("t", 1, 1))
        assert code is ErrorCode.invalid_replication_factor
        assert message == (
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
            "directories cordoned."
        )

    @pytest.mark.parametrize(
        ("assignments", "code"),
        [
            ({0: ()}, ErrorCode.invalid_replica_assignment),
            ({1: (1,)}, ErrorCode.invalid_replica_assignment),
            ({0: (1,), 2: (1,)}, ErrorCode.invalid_replica_assignment),
            ({0: (1, 1)}, ErrorCode.invalid_replica_assignment),
            ({0: (9,)}, ErrorCode.invalid_replica_assignment),
            ({0: (1, 2), 1: (1,)}, ErrorCode.invalid_replica_assignment),
            ({-1: (1,)}, ErrorCode.invalid_replica_assignment),
        ],
    )
    def test_bad_assignments(self, assignments: dict[int, tuple[int, ...]], code: ErrorCode) -> None:
        assert refusal(Cluster(brokers=2).create("t", assignments=assignments))[0] is code

    def test_an_assignment_and_numbers_exclude_each_other(self) -> None:
        for partitions, replicas in ((1, DEFAULT), (DEFAULT, 1)):
            result = Cluster().create("t", partitions, replicas, assignments={0: (1,)})
            assert refusal(result)[0] is ErrorCode.invalid_request

    def test_an_assignment_twice_for_one_partition(self) -> None:
        cluster = Cluster()
        topic = NewTopic("t", DEFAULT, DEFAULT, [(0, (1,)), (0, (1,))], [])
        result = cluster.take(cluster.controller.create_topics([topic], validate_only=False))["t"]
        assert refusal(result)[1] == "Found multiple manual partition assignments for partition 0"

    def test_fenced_broker_may_be_replica_but_not_leader(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.beat(2, want_fence=True)
        cluster.create("t", assignments={0: (2, 1)})
        assert cluster.partition("t").replicas == (2, 1)
        assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((1,), 1)
        code, message = refusal(cluster.create("u", assignments={0: (2,)}))
        assert code is ErrorCode.invalid_replica_assignment
        assert message is not None
        assert message.endswith("are fenced or in controlled shutdown.")

    def test_invalid_topic_does_not_fail_the_others(self) -> None:
        cluster = Cluster()
        topics = [NewTopic("good", 1, 1, [], []), NewTopic("bad!", 1, 1, [], [])]
        results = cluster.take(cluster.controller.create_topics(topics, validate_only=False))
        assert isinstance(results["good"], TopicCreated)
        assert isinstance(results["bad!"], KafkaError)

    def test_ten_thousand_records_are_the_limit(self) -> None:
        cluster = Cluster()
        with pytest.raises(KafkaError, match="Excessively large number of partitions per request") as raised:
            cluster.create("t", 10_001, 1)
        assert raised.value.code is ErrorCode.policy_violation
        with pytest.raises(KafkaError, match="excessively large batch operation"):
            cluster.create("t", 10_000, 1)
        assert isinstance(cluster.create("t", 9_999, 1), TopicCreated)

    @pytest.mark.parametrize(
        ("configs", "message"),
        [
            ({"no.such": "1"}, "Unknown topic config name: no.such"),
            ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
            ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ],
    )
    def test_bad_configs(self, configs: dict[str, str | None], message: str) -> None:
        assert refusal(Cluster().create("t", configs=configs)) == (ErrorCode.invalid_config, message)

    def test_old_metadata_version_writes_no_directories(self) -> None:
        cluster = Cluster(metadata_version=16)
        cluster.create("t", 1, 1)
        assert cluster.partition("t").directories == (UUID(int=2),)


class TestNewPartitions:
    def grow(self, cluster: Cluster, total: int, assignments: list[tuple[int, ...]] | None = None) -> object:
        request = NewPartitions("orders", total, assignments)
        return cluster.take(cluster.controller.create_partitions([request], validate_only=False))["orders"]

    def test_new_partitions_continue_the_placement(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", 2, 2)
        before = cluster.partition("orders", 0)
        assert self.grow(cluster, 5) is None
        assert list(cluster.image.topics_by_name["orders"].partitions) == [0, 1, 2, 3, 4]
        assert cluster.partition("orders", 0) is before
        assert all(len(cluster.partition("orders", index).replicas) == 2 for index in range(5))

    def test_refusals(self) -> None:
        cluster = Cluster()
        assert refusal(self.grow(cluster, 2)) == (ErrorCode.unknown_topic_or_partition, None)
        cluster.create("orders", 2, 1)
        assert refusal(self.grow(cluster, 2)) == (ErrorCode.invalid_partitions, "Topic already has 2 partition(s).")
        assert refusal(self.grow(cluster, 1))[0] is ErrorCode.invalid_partitions
        assert refusal(self.grow(cluster, 3, []))[0] is ErrorCode.invalid_replica_assignment
        assert refusal(self.grow(cluster, 3, [(1, 1)]))[0] is ErrorCode.invalid_replica_assignment
        assert refusal(self.grow(cluster, 3, [(5,)]))[0] is ErrorCode.invalid_replica_assignment
        assert refusal(self.grow(cluster, 100_000)) == (ErrorCode.unknown_server_error, None)
        assert len(cluster.image.topics_by_name["orders"].partitions) == 2

    def test_validate_only_writes_nothing(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        request = NewPartitions("orders", 2, None)
        decision = cluster.controller.create_partitions([request], validate_only=True)
        assert (decision.records, decision.response) == ((), {"orders": None})


class TestDeletion:
    def test_known_topics_are_deleted_and_unknown_rejected(self) -> None:
        cluster = Cluster()
        cluster.create("orders", 1, 1)
        known, unknown = cluster.image.topics_by_name["orders"].id, UUID(int=77)
        results = cluster.take(cluster.controller.delete_topics([known, unknown]))
        assert results[known] is None
        assert refusal(results[unknown])[0] is ErrorCode.unknown_topic_id
        assert len(cluster.image.topics_by_name) == 0
        assert cluster.controller.find_topic_id("orders") is None
        assert cluster.controller.find_topic_name(known) is None
