"""Changes of the cluster's metadata as the audit log describes them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from odradek.core.audit.metadata_changes import Change, describe_changes
from odradek.core.audit.redaction import REDACTED
from odradek.core.metadata import records as log
from odradek.core.metadata.apply import apply
from odradek.core.metadata.image import EMPTY_IMAGE, RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC, ClusterImage

TOPIC_ID, ACL_ID = UUID(int=7), UUID(int=8)


def partition(index: int, replicas: tuple[int, ...] = (1, 2)) -> log.PartitionRecord:
    return log.PartitionRecord(
        partition_id=index,
        topic_id=TOPIC_ID,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def config(name: str, value: str | None, kind: int = RESOURCE_TOPIC, resource: str = "orders") -> log.ConfigRecord:
    return log.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


CREATED = [
    log.TopicRecord(name="orders", topic_id=TOPIC_ID),
    config("retention.ms", "1000"),
    partition(0),
    partition(1),
]


def image_of(records: Iterable[log.MetadataRecord]) -> ClusterImage:
    return apply(EMPTY_IMAGE, records, offset=1, epoch=1)[0]


def only(before: ClusterImage, *records: log.MetadataRecord, kraft_version: int | None = None) -> Change:
    (change,) = describe_changes(before, records, kraft_version)
    return change


def test_created_topic_has_its_partitions_and_configs() -> None:
    change = only(EMPTY_IMAGE, *CREATED)
    assert change[:4] == ("topic.create", "TOPIC", "orders", None)
    assert change.after == {
        "id": "AAAAAAAAAAAAAAAAAAAABw",
        "partitions": 2,
        "replication_factor": 2,
        "configs": {"retention.ms": "1000"},
    }


def test_deleted_topic_has_what_it_was() -> None:
    change = only(image_of(CREATED), log.RemoveTopicRecord(topic_id=TOPIC_ID))
    assert (change.event, change.after) == ("topic.delete", None)
    assert change.before is not None
    assert (change.before["partitions"], change.before["configs"]) == (2, {"retention.ms": "1000"})


def test_added_partitions() -> None:
    change = only(image_of(CREATED), partition(2), partition(3))
    assert change == ("partitions.create", "TOPIC", "orders", {"partitions": 2}, {"partitions": 4})


def test_altered_configs_of_a_resource_are_one_change() -> None:
    change = only(image_of(CREATED), config("retention.ms", None), config("cleanup.policy", "compact"))
    assert change.event == "config.alter"
    assert change.before == {"retention.ms": "1000", "cleanup.policy": None}
    assert change.after == {"retention.ms": None, "cleanup.policy": "compact"}


def test_secret_configs_are_redacted_before_and_after() -> None:
    names = (
        "ssl.keystore.password",
        "listener.name.clients.ssl.key.password",
        "listener.name.clients.plain.sasl.jaas.config",
        "sasl.jaas.config",
        "my.own.token",
    )
    former = image_of(config(name, "former secret", RESOURCE_BROKER, "1") for name in names)
    change = only(former, *(config(name, "new secret", RESOURCE_BROKER, "1") for name in names))
    assert change.before == change.after == dict.fromkeys(names, REDACTED)


def test_unknown_configs_of_topics_and_groups_are_redacted() -> None:
    change = only(EMPTY_IMAGE, config("tenant.password", "x"))
    assert change.after == {"tenant.password": REDACTED}
    change = only(
        EMPTY_IMAGE, config("password", "x", RESOURCE_GROUP), config("consumer.session.timeout.ms", "1", RESOURCE_GROUP)
    )
    assert change.after == {"password": REDACTED, "consumer.session.timeout.ms": "1"}


def test_acls_of_one_resource_are_separate_changes() -> None:
    def acl(number: int) -> log.AccessControlEntryRecord:
        return log.AccessControlEntryRecord(
            id=UUID(int=number),
            resource_type=2,
            resource_name="orders",
            pattern_type=3,
            principal=f"User:{number}",
            host="*",
            operation=3,
            permission_type=3,
        )

    created = describe_changes(EMPTY_IMAGE, [acl(1), acl(2)])
    assert [(one.event, one.resource_type, one.resource_name) for one in created] == [
        ("acl.create", "TOPIC", "orders")
    ] * 2
    assert [one.after and one.after["principal"] for one in created] == ["User:1", "User:2"]
    assert created[0].after is not None
    assert {created[0].after[name] for name in ("operation", "permission", "pattern_type")} == {
        "READ",
        "ALLOW",
        "LITERAL",
    }
    deleted = only(image_of([acl(1), acl(2)]), log.RemoveAccessControlEntryRecord(id=UUID(int=2)))
    assert deleted.before is not None
    assert (deleted.event, deleted.before["principal"], deleted.after) == ("acl.delete", "User:2", None)


def test_scram_credentials_have_neither_salt_nor_keys() -> None:
    def credential(iterations: int) -> log.UserScramCredentialRecord:
        return log.UserScramCredentialRecord(
            name="ann", mechanism=2, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=iterations
        )

    change = only(image_of([credential(4096)]), credential(8192))
    assert change == (
        "scram_credential.alter",
        "USER",
        "ann",
        {"SCRAM-SHA-512": {"iterations": 4096}},
        {"SCRAM-SHA-512": {"iterations": 8192}},
    )
    change = only(image_of([credential(4096)]), log.RemoveUserScramCredentialRecord(name="ann", mechanism=2))
    assert (change.event, change.after) == ("scram_credential.delete", {"SCRAM-SHA-512": None})


def test_quotas() -> None:
    def quota(value: float, *, remove: bool = False) -> log.ClientQuotaRecord:
        entity = (
            log.QuotaEntity(entity_type="user", entity_name="ann"),
            log.QuotaEntity(entity_type="client-id", entity_name=None),
        )
        return log.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)

    change = only(image_of([quota(10)]), quota(20))
    assert change == (
        "quota.alter",
        "CLIENT_QUOTA",
        "client-id=<default>,user=ann",
        {"producer_byte_rate": 10.0},
        {"producer_byte_rate": 20.0},
    )
    assert only(image_of([quota(10)]), quota(0, remove=True)).after == {"producer_byte_rate": None}


def test_delegation_tokens() -> None:
    def token(expires_at: int) -> log.DelegationTokenRecord:
        return log.DelegationTokenRecord(
            owner="User:ann",
            requester="User:bob",
            renewers=(),
            issue_timestamp=1,
            max_timestamp=9,
            expiration_timestamp=expires_at,
            token_id="id",
        )

    def shown(values: Any) -> Any:
        return values and values["expiration_timestamp"]

    changes = [
        only(EMPTY_IMAGE, token(5)),
        only(image_of([token(5)]), token(7)),
        only(image_of([token(7)]), log.RemoveDelegationTokenRecord(token_id="id")),
    ]
    assert [(one.event, shown(one.before), shown(one.after)) for one in changes] == [
        ("delegation_token.create", None, 5),
        ("delegation_token.alter", 5, 7),
        ("delegation_token.delete", 7, None),
    ]


def test_reassignments_and_elections_of_a_topic_are_one_change_each() -> None:
    changes = describe_changes(
        image_of(CREATED),
        [
            log.PartitionChangeRecord(
                partition_id=0, topic_id=TOPIC_ID, replicas=(1, 2, 3), adding_replicas=(3,), removing_replicas=(1,)
            ),
            log.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=2),
            log.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(1,)),
        ],
    )
    assert [(one.event, one.resource_name, one.before, one.after) for one in changes] == [
        (
            "partition.reassign",
            "orders",
            {"0": {"replicas": [1, 2], "adding": [], "removing": []}},
            {"0": {"replicas": [1, 2, 3], "adding": [3], "removing": [1]}},
        ),
        ("leader.elect", "orders", {"1": {"leader": 1}}, {"1": {"leader": 2}}),
    ]


def test_features() -> None:
    change = only(EMPTY_IMAGE, log.FeatureLevelRecord(name="group.version", feature_level=1))
    assert change == ("feature.update", "FEATURE", "group.version", {"level": 0}, {"level": 1})
    assert only(EMPTY_IMAGE, kraft_version=1).resource_name == "kraft.version"


def test_the_controllers_own_records_are_no_changes() -> None:
    assert describe_changes(EMPTY_IMAGE, [log.NoOpRecord()]) == []
