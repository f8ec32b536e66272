"""Configs, features and producer ids."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.core.controller.commands import UpgradeType
from odradek.core.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource
from odradek.core.metadata.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from tests.unit.core.controller.cluster import Cluster

ORDERS: ConfigResource = (RESOURCE_TOPIC, "orders")
BROKER: ConfigResource = (RESOURCE_BROKER, "1")
ALL_BROKERS: ConfigResource = (RESOURCE_BROKER, "")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("orders", 1, 1, configs={"retention.ms": "5"})
    return cluster


def change(cluster: Cluster, resource: ConfigResource, *changes: Change, validate_only: bool = False) -> object:
    decision = cluster.controller.change_configs({resource: changes}, validate_only=validate_only)
    result = cluster.take(decision)[resource]
    return None if result is None else (result.code, result.message)


def put(name: str, value: str) -> Change:
    return Change(name, Operation.SET, value)


def drop(name: str) -> Change:
    return Change(name, Operation.DELETE, None)


class TestConfigs:
    def test_incremental_change_keeps_other_configs(self, cluster: Cluster) -> None:
        assert change(cluster, ORDERS, put("segment.ms", "60000")) is None
        assert cluster.image.topic_config("orders") == {"retention.ms": "5", "segment.ms": "60000"}
        assert change(cluster, ORDERS, drop("retention.ms"), drop("flush.ms")) is None
        assert cluster.image.topic_config("orders") == {"segment.ms": "60000"}

    def test_unchanged_topic_config_writes_no_record(self, cluster: Cluster) -> None:
        decision = cluster.controller.change_configs({ORDERS: [put("retention.ms", "5")]}, validate_only=False)
        assert decision.records == ()

    def test_lists_grow_and_shrink_from_their_default(self, cluster: Cluster) -> None:
        assert change(cluster, ORDERS, Change("cleanup.policy", Operation.APPEND, "compact")) is None
        assert cluster.image.topic_config("orders")["cleanup.policy"] == "delete,compact"
        assert change(cluster, ORDERS, Change("cleanup.policy", Operation.SUBTRACT, "delete")) is None
        assert cluster.image.topic_config("orders")["cleanup.policy"] == "compact"

    def test_replacement_removes_other_configs(self, cluster: Cluster) -> None:
        decision = cluster.controller.replace_configs({ORDERS: {"segment.ms": "60000"}}, validate_only=False)
        assert cluster.take(decision) == {ORDERS: None}
        assert cluster.image.topic_config("orders") == {"segment.ms": "60000"}

    def test_validate_only_writes_nothing(self, cluster: Cluster) -> None:
        before = cluster.image
        assert change(cluster, ORDERS, put("segment.ms", "60000"), validate_only=True) is None
        assert change(cluster, ORDERS, put("segment.ms", "x"), validate_only=True) is not None
        assert cluster.image == before

    @pytest.mark.parametrize(
        ("resource", "wanted", "code"),
        [
            ((RESOURCE_TOPIC, "nowhere"), put("retention.ms", "5"), ErrorCode.unknown_topic_or_partition),
            ((RESOURCE_TOPIC, ""), put("retention.ms", "5"), ErrorCode.invalid_request),
            ((RESOURCE_TOPIC, "no/slash"), put("retention.ms", "5"), ErrorCode.invalid_topic_exception),
            ((RESOURCE_BROKER, "first"), put("log.retention.ms", "5"), ErrorCode.invalid_request),
            ((RESOURCE_BROKER, "-1"), put("log.retention.ms", "5"), ErrorCode.invalid_request),
            ((RESOURCE_BROKER, "9"), put("log.retention.ms", "5"), ErrorCode.broker_id_not_registered),
            ((3, "anything"), put("a", "5"), ErrorCode.invalid_request),
            ((32, "group"), put("consumer.session.timeout.ms", "5"), ErrorCode.invalid_config),
            (ORDERS, put("retention.ms", "9" * 32768), ErrorCode.invalid_config),
            (ORDERS, Change("retention.ms", Operation.APPEND, "5"), ErrorCode.invalid_config),
        ],
    )
    def test_refusals(self, cluster: Cluster, resource: ConfigResource, wanted: Change, code: ErrorCode) -> None:
        before = cluster.image
        refused = change(cluster, resource, wanted)
        assert isinstance(refused, tuple)
        assert refused[0] is code
        assert cluster.image == before

    def test_rejected_resource_does_not_fail_the_others(self, cluster: Cluster) -> None:
        nowhere = (RESOURCE_TOPIC, "nowhere")
        changes = {nowhere: [put("retention.ms", "7")], ORDERS: [put("retention.ms", "7")]}
        results = cluster.take(cluster.controller.change_configs(changes, validate_only=False))
        assert results[nowhere] is not None
        assert results[ORDERS] is None
        assert cluster.image.topic_config("orders") == {"retention.ms": "7"}

    def test_min_isr_with_elr_cannot_be_set_per_broker_or_removed(self, cluster: Cluster) -> None:
        assert change(cluster, BROKER, put("min.insync.replicas", "2")) == (
            ErrorCode.invalid_config,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
        assert change(cluster, ALL_BROKERS, drop("min.insync.replicas")) == (
            ErrorCode.invalid_config,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )
        replaced = cluster.controller.replace_configs({ALL_BROKERS: {}}, validate_only=False).response[ALL_BROKERS]
        assert replaced is not None

    def test_new_min_isr_clears_the_elr(self, cluster: Cluster) -> None:
        for resource, forgotten in ((ORDERS, "orders"), (ALL_BROKERS, "")):
            decision = cluster.controller.change_configs(
                {resource: [put("min.insync.replicas", "2")]}, validate_only=False
            )
            assert decision.records[-1] == ClearElrRecord(topic_name=forgotten)

    @pytest.mark.parametrize("resource", [ORDERS, ALL_BROKERS])
    @pytest.mark.parametrize("minimum", ["1", "3"])
    def test_new_min_isr_keeps_the_elr_of_offline_partitions(self, resource: ConfigResource, minimum: str) -> None:
        cluster = Cluster(brokers=3)
        cluster.create("orders", assignments={0: (1, 2, 3)})
        cluster.create("others", assignments={0: (1, 2, 3)})
        change(cluster, ALL_BROKERS, put("min.insync.replicas", "2"))
        for broker in (3, 2, 1):
            cluster.beat(broker, want_fence=True)
        assert cluster.partition("orders").elr == (1, 2)
        change(cluster, resource, put("min.insync.replicas", minimum))
        before = cluster.partition("orders")
        assert (before.leader, before.isr, before.elr, before.last_known_elr) == (-1, (), (1, 2), (1,))
        cluster.beat(1)
        after = cluster.partition("orders")
        # Alone it is enough, or it is not: only then does the other one keep up with what is committed.
        assert (after.leader, after.isr, after.elr) == (1, (1,), () if minimum == "1" else (2,))
        cluster.beat(1, want_fence=True)
        assert cluster.partition("orders").elr == ((1,) if minimum == "1" else (1, 2))

    def test_lower_min_isr_clears_the_elr_of_online_partitions(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)})
        change(cluster, ORDERS, put("min.insync.replicas", "2"))
        cluster.beat(2, want_fence=True)
        assert cluster.partition("orders").elr == (2,)
        change(cluster, ORDERS, put("min.insync.replicas", "1"))
        assert cluster.partition("orders").elr == ()
        cluster.beat(1, want_fence=True)
        assert cluster.partition("orders").elr == (1,)

    def test_dynamic_broker_configs_affect_commands(self) -> None:
        cluster = Cluster(brokers=2)
        cluster.create("orders", assignments={0: (1, 2)})
        change(cluster, ALL_BROKERS, put("min.insync.replicas", "2"))
        cluster.beat(2, want_fence=True)
        assert cluster.partition("orders").elr == (2,)


class TestFeatures:
    def update(
        self, cluster: Cluster, name: str, level: int, how: UpgradeType | None = UpgradeType.UPGRADE
    ) -> str | None:
        error = cluster.take(cluster.controller.update_features({name: (level, how)}, validate_only=False))
        return None if error is None else error.message

    def test_features_can_be_upgraded_and_downgraded(self, cluster: Cluster) -> None:
        assert self.update(cluster, "transaction.version", 1, UpgradeType.SAFE_DOWNGRADE) is None
        assert cluster.image.features.level("transaction.version") == 1
        assert self.update(cluster, "transaction.version", 2) is None
        assert cluster.image.features.level("transaction.version") == 2
        assert self.update(cluster, "transaction.version", 0, UpgradeType.UNSAFE_DOWNGRADE) is None
        assert "transaction.version" not in cluster.image.features.levels

    @pytest.mark.parametrize(
        ("name", "level", "how", "reason"),
        [
            ("nothing", 1, UpgradeType.UPGRADE, "Local controller 1 does not support this feature."),
            ("metadata.version", 99, UpgradeType.UPGRADE, "Local controller 1 only supports versions 7-30"),
            ("metadata.version", -1, UpgradeType.UPGRADE, "A feature version cannot be less than 0."),
            ("metadata.version", 29, UpgradeType.UPGRADE, "Can't downgrade the version of this feature without"),
            ("metadata.version", 29, UpgradeType.SAFE_DOWNGRADE, "might delete metadata information"),
            ("metadata.version", 29, UpgradeType.UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported"),
            ("group.version", 1, None, "does not support the given upgrade type"),
            ("kraft.version", 0, UpgradeType.UPGRADE, None),
        ],
    )
    def test_refusals(
        self, cluster: Cluster, name: str, level: int, how: UpgradeType | None, reason: str | None
    ) -> None:
        message = self.update(cluster, name, level, how)
        if reason is None:
            assert message is None
        else:
            assert message is not None
            assert reason in message
        assert cluster.image.features.metadata_version == 30

    def test_feature_updates_are_atomic(self, cluster: Cluster) -> None:
        updates: dict[str, tuple[int, UpgradeType | None]] = {
            "group.version": (0, UpgradeType.SAFE_DOWNGRADE),
            "nothing": (1, UpgradeType.UPGRADE),
        }
        decision = cluster.controller.update_features(updates, validate_only=False)
        assert decision.records == ()
        assert decision.response is not None

    def test_broker_without_support_blocks_the_upgrade(self, cluster: Cluster) -> None:
        features = tuple(one for one in cluster.registration(2).features if one.name != "share.version")
        cluster.register(2, features=features)
        message = self.update(cluster, "share.version", 1)
        assert message == "Invalid update version 1 for feature share.version. Broker 2 does not support this feature."

    def test_elr_upgrade_writes_a_cluster_min_isr(self) -> None:
        cluster = Cluster(metadata_version=25)
        change(cluster, BROKER, put("min.insync.replicas", "2"))
        decision = cluster.controller.update_features(
            {"eligible.leader.replicas.version": (1, UpgradeType.UPGRADE)}, validate_only=False
        )
        written = [record for record in decision.records if isinstance(record, ConfigRecord)]
        assert [(one.resource_name, one.value) for one in written] == [("", "2"), ("1", None)]
        assert decision.records[-1] == FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
        old = Cluster(metadata_version=22)
        message = self.update(old, "eligible.leader.replicas.version", 1)
        assert message is not None
        assert "because it depends on metadata.version level 23" in message

    def test_kraft_version_is_left_to_the_quorum(self, cluster: Cluster) -> None:
        decision = cluster.controller.update_features({"kraft.version": (1, UpgradeType.UPGRADE)}, validate_only=False)
        assert (decision.records, decision.response, decision.kraft_version) == ((), None, 1)
        cluster.controller.note_kraft_version(1)
        message = self.update(cluster, "kraft.version", 0, UpgradeType.SAFE_DOWNGRADE)
        assert message is not None
        assert message.endswith("Can't downgrade the version of this feature.")
        validated = cluster.controller.update_features({"kraft.version": (1, UpgradeType.UPGRADE)}, validate_only=True)
        assert validated.kraft_version is None


class TestProducerIds:
    def test_blocks_do_not_overlap(self, cluster: Cluster) -> None:
        epoch = cluster.image.brokers[1].epoch
        first = cluster.take(cluster.controller.allocate_producer_ids(1, epoch))
        second = cluster.take(cluster.controller.allocate_producer_ids(1, epoch))
        assert (first.first, first.length, second.first) == (0, 1000, 1000)

    def test_stale_broker_epoch_gets_no_producer_ids(self, cluster: Cluster) -> None:
        with pytest.raises(KafkaError) as raised:
            cluster.controller.allocate_producer_ids(1, 0)
        assert raised.value.code is ErrorCode.stale_broker_epoch
