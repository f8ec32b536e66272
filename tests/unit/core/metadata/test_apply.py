from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import pytest

from odradek.core.metadata import records as log
from odradek.core.metadata.apply import ImageDelta, UnappliableRecord, apply
from odradek.core.metadata.directories import MIGRATING, UNASSIGNED
from odradek.core.metadata.image import EMPTY_IMAGE, RESOURCE_BROKER, RESOURCE_TOPIC, ClusterImage
from odradek.core.metadata.image_records import records_of
from tests.unit.core.metadata.sample_records import ENDPOINTS, FEATURES, IDS

ORDERS, PAYMENTS, DIRECTORY, OTHER_DIRECTORY = IDS[:4]


def topic(name: str, topic_id: UUID, partitions: int = 1) -> list[log.MetadataRecord]:
    return [
        log.TopicRecord(name=name, topic_id=topic_id),
        *(partition(topic_id, index) for index in range(partitions)),
    ]


def partition(topic_id: UUID, index: int) -> log.PartitionRecord:
    return log.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DIRECTORY, UNASSIGNED),
    )


def broker(broker_id: int = 1, epoch: int = 5) -> log.RegisterBrokerRecord:
    return log.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=IDS[4],
        broker_epoch=epoch,
        end_points=ENDPOINTS,
        features=FEATURES,
        rack=None,
        log_dirs=(DIRECTORY, OTHER_DIRECTORY),
    )


def config(name: str, value: str | None, resource: tuple[int, str] = (RESOURCE_TOPIC, "orders")) -> log.ConfigRecord:
    return log.ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)


def after(image: ClusterImage, records: Iterable[log.MetadataRecord]) -> tuple[ClusterImage, ImageDelta]:
    return apply(image, records, offset=image.offset + 1, epoch=1)


def test_a_new_topic() -> None:
    image, delta = after(EMPTY_IMAGE, topic("orders", ORDERS, 2))
    assert image.topics_by_name["orders"] is image.topics_by_id[ORDERS]
    assert image.topics_by_id[ORDERS].partitions[1].directories == (DIRECTORY, UNASSIGNED)
    assert delta.topics_created == (image.topics_by_id[ORDERS],)
    assert delta.partitions_changed == {ORDERS: (0, 1)}
    assert delta.topics_changed == delta.topics_deleted == ()
    assert (image.offset, image.epoch) == (0, 1)


def test_only_the_touched_partition_is_new() -> None:
    image, _ = after(EMPTY_IMAGE, topic("orders", ORDERS, 3) + topic("payments", PAYMENTS))
    change = log.PartitionChangeRecord(partition_id=1, topic_id=ORDERS, isr=(2,), leader=2)
    changed, delta = after(image, [change])
    assert delta.partitions_changed == {ORDERS: (1,)}
    assert changed.topics_by_id[PAYMENTS] is image.topics_by_id[PAYMENTS]
    assert changed.topics_by_id[ORDERS].partitions[0] is image.topics_by_id[ORDERS].partitions[0]
    found = changed.topics_by_id[ORDERS].partitions[1]
    assert (found.isr, found.leader, found.leader_epoch, found.partition_epoch) == ((2,), 2, 1, 1)
    assert image.topics_by_id[ORDERS].partitions[1].leader == 1


def test_change_with_a_leader_bumps_the_leader_epoch() -> None:
    image, _ = after(EMPTY_IMAGE, topic("orders", ORDERS))
    kept, _ = after(image, [log.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1,))])
    assert kept.topics_by_id[ORDERS].partitions[0].leader_epoch == 0
    bumped, _ = after(image, [log.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1)])
    assert bumped.topics_by_id[ORDERS].partitions[0].leader_epoch == 1


def test_partitions_without_directories_are_migrating() -> None:
    image, _ = after(
        EMPTY_IMAGE, [log.TopicRecord(name="old", topic_id=ORDERS), replace(partition(ORDERS, 0), directories=())]
    )
    assert image.topics_by_id[ORDERS].partitions[0].directories == (MIGRATING, MIGRATING)


def test_deleted_topic_loses_its_configs() -> None:
    image, _ = after(EMPTY_IMAGE, [*topic("orders", ORDERS), config("retention.ms", "5")])
    assert image.topic_config("orders") == {"retention.ms": "5"}
    gone, delta = after(image, [log.RemoveTopicRecord(topic_id=ORDERS)])
    assert "orders" not in gone.topics_by_name
    assert ORDERS not in gone.topics_by_id
    assert gone.topic_config("orders") == {}
    assert delta.topics_deleted == (image.topics_by_id[ORDERS],)
    assert delta.configs_changed == ((RESOURCE_TOPIC, "orders"),)


def test_topic_created_and_deleted_in_one_call_is_not_in_the_delta() -> None:
    image, delta = after(EMPTY_IMAGE, [*topic("orders", ORDERS), log.RemoveTopicRecord(topic_id=ORDERS)])
    assert len(image.topics_by_id) == len(image.topics_by_name) == 0
    assert delta.topics_created == delta.topics_deleted == ()
    assert delta.partitions_changed == {}


def test_topic_recreated_in_one_call_has_a_new_id() -> None:
    image, _ = after(EMPTY_IMAGE, topic("orders", ORDERS))
    again, delta = after(image, [log.RemoveTopicRecord(topic_id=ORDERS), *topic("orders", PAYMENTS)])
    assert again.topics_by_name["orders"].id == PAYMENTS
    assert [one.id for one in delta.topics_deleted] == [ORDERS]
    assert [one.id for one in delta.topics_created] == [PAYMENTS]


def test_configs_are_merged_and_removed_with_the_last_value() -> None:
    image, _ = after(EMPTY_IMAGE, [config("a", "1"), config("b", "2"), config("a", "3")])
    assert image.topic_config("orders") == {"a": "3", "b": "2"}
    image, _ = after(image, [config("a", None), config("b", None)])
    assert len(image.configs) == 0
    image, delta = after(image, [config("x", "1", (RESOURCE_BROKER, "")), config("y", "1", (RESOURCE_BROKER, "7"))])
    assert (image.default_broker_config(), image.broker_config(7)) == ({"x": "1"}, {"y": "1"})
    assert delta.configs_changed == ((RESOURCE_BROKER, ""), (RESOURCE_BROKER, "7"))


def test_broker_is_registered_changed_and_unregistered() -> None:
    image, delta = after(EMPTY_IMAGE, [broker()])
    assert image.brokers[1].fenced
    assert delta.brokers_changed == (1,)
    change = log.BrokerRegistrationChangeRecord
    image, _ = after(image, [change(broker_id=1, broker_epoch=5, fenced=-1)])
    assert not image.brokers[1].fenced
    image, _ = after(image, [change(broker_id=1, broker_epoch=5, in_controlled_shutdown=1)])
    assert image.brokers[1].in_controlled_shutdown
    image, _ = after(image, [change(broker_id=1, broker_epoch=5, log_dirs=(DIRECTORY,))])
    assert image.brokers[1].directories == (DIRECTORY,)
    image, _ = after(image, [change(broker_id=1, broker_epoch=5, cordoned_log_dirs=(DIRECTORY,))])
    assert image.brokers[1].cordoned_directories == (DIRECTORY,)
    image, _ = after(image, [change(broker_id=1, broker_epoch=5, cordoned_log_dirs=())])
    assert image.brokers[1].cordoned_directories == ()
    image, delta = after(image, [log.UnregisterBrokerRecord(broker_id=1, broker_epoch=5)])
    assert image.brokers == {}
    assert delta.brokers_changed == (1,)


def test_features_at_level_zero_are_removed() -> None:
    image, _ = after(EMPTY_IMAGE, [log.FeatureLevelRecord(name="metadata.version", feature_level=30)])
    image, delta = after(image, [log.FeatureLevelRecord(name="group.version", feature_level=1)])
    assert image.features.level("group.version") == 1
    assert delta.features_changed == ("group.version",)
    image, _ = after(image, [log.FeatureLevelRecord(name="group.version", feature_level=0)])
    assert image.features.levels == {"metadata.version": 30}
    assert image.features.metadata_version == 30


def test_elr_is_cleared_for_one_topic_or_all() -> None:
    image, _ = after(
        EMPTY_IMAGE,
        [
            *topic("orders", ORDERS, 2),
            *topic("payments", PAYMENTS),
            log.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, eligible_leader_replicas=(2,)),
            log.PartitionChangeRecord(partition_id=0, topic_id=PAYMENTS, last_known_elr=(2,)),
        ],
    )
    one, delta = after(image, [log.ClearElrRecord(topic_name="orders")])
    assert delta.partitions_changed == {ORDERS: (0,)}
    assert one.topics_by_id[ORDERS].partitions[0].elr == ()
    assert one.topics_by_id[ORDERS].partitions[0].partition_epoch == 2
    assert one.topics_by_id[PAYMENTS].partitions[0].last_known_elr == (2,)
    every, _ = after(image, [log.ClearElrRecord(topic_name="")])
    assert every.topics_by_id[PAYMENTS].partitions[0].last_known_elr == ()
    deleted, _ = after(image, [log.RemoveTopicRecord(topic_id=ORDERS), log.ClearElrRecord(topic_name="")])
    assert ORDERS not in deleted.topics_by_id


@pytest.mark.parametrize(
    "record",
    [
        log.RemoveTopicRecord(topic_id=ORDERS),
        partition(ORDERS, 0),
        log.PartitionChangeRecord(partition_id=0, topic_id=ORDERS),
        log.PartitionChangeRecord(partition_id=9, topic_id=PAYMENTS),
        log.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=1),
        log.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, fenced=1),
        log.FenceBrokerRecord(id=1, epoch=4),
    ],
)
def test_incomplete_log_is_detected(record: log.MetadataRecord) -> None:
    image, _ = after(EMPTY_IMAGE, [broker(), *topic("payments", PAYMENTS)])
    with pytest.raises(UnappliableRecord):
        after(image, [record])


def test_records_of_an_image_build_an_equal_image() -> None:
    image, _ = after(
        EMPTY_IMAGE,
        [
            log.FeatureLevelRecord(name="metadata.version", feature_level=30),
            log.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            broker(),
            log.RegisterControllerRecord(
                controller_id=3,
                incarnation_id=IDS[5],
                zk_migration_ready=False,
                end_points=ENDPOINTS,
                features=FEATURES,
            ),
            *topic("orders", ORDERS, 3),
            log.PartitionChangeRecord(
                partition_id=1, topic_id=ORDERS, isr=(), leader=-1, eligible_leader_replicas=(1,), last_known_elr=(1,)
            ),
            config("retention.ms", "5"),
            log.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=7000),
            log.ClientQuotaRecord(
                entity=(log.QuotaEntity(entity_type="user", entity_name=None),), key="k", value=2.0, remove=False
            ),
            log.UserScramCredentialRecord(
                name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
            ),
            log.DelegationTokenRecord(
                owner="a",
                requester="b",
                renewers=(),
                issue_timestamp=1,
                max_timestamp=2,
                expiration_timestamp=3,
                token_id="t",
            ),
            log.AccessControlEntryRecord(
                id=IDS[5],
                resource_type=2,
                resource_name="*",
                pattern_type=3,
                principal="User:a",
                host="*",
                operation=2,
                permission_type=3,
            ),
        ],
    )
    again, _ = apply(EMPTY_IMAGE, records_of(image), offset=image.offset, epoch=image.epoch)
    assert again == image


def test_quotas_credentials_tokens_and_acls_are_added_and_removed() -> None:
    quota = log.ClientQuotaRecord(
        entity=(log.QuotaEntity(entity_type="user", entity_name="a"),), key="k", value=2.0, remove=False
    )
    image, delta = after(EMPTY_IMAGE, [quota])
    assert image.client_quotas[(("user", "a"),)] == {"k": 2.0}
    assert delta.client_quotas_changed
    image, _ = after(image, [replace(quota, remove=True)])
    assert len(image.client_quotas) == 0
    image, delta = after(image, [log.RemoveUserScramCredentialRecord(name="nobody", mechanism=1)])
    assert not delta.credentials_changed
