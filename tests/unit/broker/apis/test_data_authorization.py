"""Each API of the data path, of groups and of transactions with exactly the permissions it needs, and without one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.groups.commands import CommitOffsets, PartitionOffset, TopicOffsets
from odradek.core.metadata.features import GROUP_VERSION
from odradek.core.metadata.image import FeaturesImage
from odradek.core.security.access import UNRESTRICTED
from odradek.core.security.resources import Operation
from odradek.core.transactions.commands import AddPartitions
from odradek.core.transactions.settings import TransactionSettings
from tests.unit.broker.apis.authorization_cases import (
    CLUSTER_DENIED,
    DESCRIBE_G,
    DESCRIBE_T,
    GROUP_CASES,
    GROUP_DENIED,
    NONE,
    NOT_REQUESTED,
    PRODUCER_ID,
    READ_G,
    READ_T,
    TOPIC_CASES,
    TOPIC_DENIED,
    TRANSACTION_CASES,
    TXN_DENIED,
    UNKNOWN_TOPIC,
    WRITE_T,
    WRITE_X,
    Case,
    Denial,
    by_topic,
    cluster,
    group,
    of_group,
    topic,
    transaction,
)
from tests.unit.broker.fake_broker import FakeBroker
from tests.unit.broker.groups_port import HostedGroups
from tests.unit.broker.transactions_port import HostedTransactions
from tests.unit.core.groups.cluster import Cluster, Consumer
from tests.unit.fake_access import FakeAccess

CASES = (*GROUP_CASES, *TRANSACTION_CASES, *TOPIC_CASES)


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    """Topics t and u; group g with offsets, group members with a member; transactional id x, and open with t."""
    broker = FakeBroker(tmp_path)
    broker.add_topic("t", 2)
    broker.add_topic("u")
    for internal in ("__consumer_offsets", "__transaction_state"):
        broker.add_topic(internal, held=False)
    broker.image = replace(broker.image, features=FeaturesImage({GROUP_VERSION: 1}))
    broker.groups = HostedGroups(Cluster(t=2, u=1))
    topics = [TopicOffsets(name, [PartitionOffset(0, 3, metadata="")]) for name in ("t", "u")]
    broker.groups.harness.execute(CommitOffsets(9, "g", -1, "", None, topics))
    Consumer(broker.groups.harness, "m", ("t",), group_id="members").join()
    broker.transactions = HostedTransactions()
    assert broker.transactions.harness.init("x").producer.producer_id == PRODUCER_ID
    opened = broker.transactions.harness.init("open").producer
    partitions = frozenset((TopicPartition("t", 0),))
    broker.transactions.harness.execute(AddPartitions("open", opened.producer_id, opened.producer_epoch, partitions, 0))
    return broker


@pytest.mark.parametrize("case", CASES, ids=str)
def test_allowed_with_exactly_these_permissions(broker: FakeBroker, case: Case) -> None:
    access = FakeAccess(*case.needs)
    broker.access = access
    assert case.find(broker.request(case.key, case.version, **case.fields)) == case.granted
    assert access.logged_denials() == []
    assert set(case.needs) <= {one[:3] for one in access.requests}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_checked_without_authorizer(broker: FakeBroker, case: Case) -> None:
    broker.access = UNRESTRICTED
    found = case.find(broker.request(case.key, case.version, **case.fields))
    assert case.api == "ConsumerGroupDescribe" or found == case.granted


@pytest.mark.parametrize(
    ("case", "denial"),
    [
        pytest.param(case, denial, id=f"{case} without {denial.missing[0].name} {denial.missing[2]}")
        for case in CASES
        for denial in case.denials
    ],
)
def test_denied_without_permission(broker: FakeBroker, case: Case, denial: Denial) -> None:
    access = FakeAccess(*(one for one in case.needs if one != denial.missing))
    broker.access = access
    assert case.find(broker.request(case.key, case.version, **case.fields)) == denial.found
    assert (denial.missing in access.logged_denials()) == denial.is_logged


# ---- topics that do not exist


@pytest.mark.parametrize(
    ("case", "need"),
    [
        pytest.param(case, need, id=str(case))
        for case in CASES
        for need in (READ_T, DESCRIBE_T, WRITE_T, topic("t", Operation.DELETE))
        if need in case.needs and case.api not in ("ConsumerGroupDescribe", "DescribeTransactions")
    ],
)
def test_denied_topic_looks_like_a_missing_one(tmp_path: Path, broker: FakeBroker, case: Case, need: Any) -> None:
    broker.access = FakeAccess(*(one for one in case.needs if one != need))
    existing = case.find(broker.request(case.key, case.version, **case.fields))
    empty = FakeBroker(tmp_path / "empty")
    empty.access, empty.groups, empty.transactions = broker.access, broker.groups, broker.transactions
    empty.image = replace(empty.image, features=broker.image.features)
    for name in ("u", "__consumer_offsets"):
        empty.add_topic(name)
    assert case.find(empty.request(case.key, case.version, **case.fields)) == existing


@pytest.mark.parametrize(
    ("key", "version", "fields", "needs", "expected"),
    [
        pytest.param(
            8,
            9,
            {
                "group_id": "g",
                "generation_id_or_member_epoch": -1,
                "topics": [{"name": "gone", "partitions": [{"committed_metadata": ""}]}],
            },
            (READ_G, topic("gone", Operation.READ)),
            [("gone", [UNKNOWN_TOPIC])],
            id="OffsetCommit",
        ),
        pytest.param(
            28,
            3,
            {
                "transactional_id": "x",
                "group_id": "g",
                "topics": [{"name": "gone", "partitions": [{"committed_metadata": ""}]}],
            },
            (WRITE_X, READ_G, topic("gone", Operation.READ)),
            [("gone", [UNKNOWN_TOPIC])],
            id="TxnOffsetCommit",
        ),
        pytest.param(
            47,
            0,
            {"group_id": "g", "topics": [{"name": "gone", "partitions": [{"partition_index": 0}]}]},
            (group("g", Operation.DELETE), topic("gone", Operation.READ)),
            [("gone", [UNKNOWN_TOPIC])],
            id="OffsetDelete",
        ),
        pytest.param(
            61,
            0,
            {"topics": [{"name": "gone", "partition_indexes": [0]}]},
            (topic("gone", Operation.READ),),
            [("gone", [UNKNOWN_TOPIC])],
            id="DescribeProducers",
        ),
        pytest.param(
            61,
            0,
            {"topics": [{"name": "not valid", "partition_indexes": [0]}]},
            (),
            [("not valid", [ErrorCode.invalid_topic_exception])],
            id="DescribeProducers, invalid name before the check",
        ),
        pytest.param(
            21,
            2,
            {"timeout": 1000, "topics": [{"name": "gone", "partitions": [{"partition_index": 0}]}]},
            (topic("gone", Operation.DELETE),),
            [("gone", [UNKNOWN_TOPIC])],
            id="DeleteRecords",
        ),
        pytest.param(
            2,
            10,
            {"replica_id": -1, "topics": [{"name": "gone", "partitions": [{"timestamp": -1}]}]},
            (topic("gone", Operation.DESCRIBE),),
            [("gone", [UNKNOWN_TOPIC])],
            id="ListOffsets",
        ),
    ],
)
def test_allowed_missing_topic_is_unknown(
    broker: FakeBroker, key: int, version: int, fields: dict[str, Any], needs: Any, expected: Any
) -> None:
    broker.access = FakeAccess(*needs)
    assert by_topic(broker.request(key, version, **fields)) == expected


# ---- topic ids


def test_offset_commit_by_topic_id_rejects_unknown_ids_without_a_check(broker: FakeBroker) -> None:
    access = FakeAccess(READ_G, READ_T)
    broker.access = access
    known = [broker.image.topics_by_name[name].id for name in ("t", "u")]
    unknown = type(known[0])(int=77)
    partitions = [{"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}]
    topics = [{"topic_id": one, "partitions": partitions} for one in (unknown, known[1], known[0])]
    response = broker.request(8, 10, group_id="g", generation_id_or_member_epoch=-1, topics=topics)
    found = {one.topic_id: [part.error_code for part in one.partitions] for one in response.topics}
    assert found == {unknown: [ErrorCode.unknown_topic_id], known[1]: [TOPIC_DENIED], known[0]: [NONE]}
    assert [one.name for one in access.requests] == ["g", "u", "t"]


def test_offset_commit_by_topic_id_of_a_denied_group_names_no_topic(broker: FakeBroker) -> None:
    broker.access = FakeAccess(READ_T)
    topic_id = broker.image.topics_by_name["t"].id
    partitions = [{"partition_index": 0, "committed_metadata": ""}]
    response = broker.request(8, 10, group_id="g", topics=[{"topic_id": topic_id, "partitions": partitions}])
    assert [(one.topic_id, [part.error_code for part in one.partitions]) for one in response.topics] == [
        (topic_id, [GROUP_DENIED])
    ]


def test_offset_fetch_by_topic_id(broker: FakeBroker) -> None:
    broker.access = FakeAccess(DESCRIBE_G, DESCRIBE_T)
    known = [broker.image.topics_by_name[name].id for name in ("t", "u")]
    unknown = type(known[0])(int=77)
    topics = [{"topic_id": one, "partition_indexes": [0]} for one in (unknown, *known)]
    (found,) = broker.request(9, 10, groups=[{"group_id": "g", "topics": topics}]).groups
    assert [
        (one.topic_id, [(part.error_code, part.committed_offset) for part in one.partitions]) for one in found.topics
    ] == [
        (known[0], [(NONE, 3)]),
        (unknown, [(ErrorCode.unknown_topic_id, -1)]),
        (known[1], [(TOPIC_DENIED, -1)]),
    ]


# ---- order of checks, partial results


def test_topics_of_a_denied_group_are_not_checked(broker: FakeBroker) -> None:
    access = FakeAccess()
    broker.access = access
    broker.request(9, 9, groups=[{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}])
    broker.request(8, 9, group_id="g", topics=[{"name": "t", "partitions": []}])
    broker.request(47, 0, group_id="g", topics=[{"name": "t", "partitions": []}])
    assert {one.name for one in access.requests} == {"g"}
    assert broker.groups.commands == []


def test_partial_commit(broker: FakeBroker) -> None:
    broker.access = FakeAccess(READ_G, READ_T)
    partitions = [{"partition_index": 0, "committed_offset": 8, "committed_metadata": ""}]
    topics = [{"name": name, "partitions": partitions} for name in ("u", "t", "gone")]
    found = by_topic(broker.request(8, 9, group_id="g", generation_id_or_member_epoch=-1, topics=topics))
    assert sorted(found) == [("gone", [TOPIC_DENIED]), ("t", [NONE]), ("u", [TOPIC_DENIED])]


def test_sync_group_without_protocol_is_rejected_before_the_check(broker: FakeBroker) -> None:
    access = FakeAccess()
    broker.access = access
    response = broker.request(14, 5, group_id="g", member_id="m", protocol_type=None, protocol_name=None)
    assert response.error_code is ErrorCode.inconsistent_group_protocol
    assert access.requests == []


def test_consumer_group_apis_without_the_feature_are_rejected_before_the_check(broker: FakeBroker) -> None:
    access = FakeAccess()
    broker.access = access
    broker.image = replace(broker.image, features=FeaturesImage())
    assert broker.request(68, 1, group_id="g").error_code is ErrorCode.unsupported_version
    assert of_group(broker.request(69, 1, group_ids=["g"])) is ErrorCode.unsupported_version
    assert access.requests == []


def test_heartbeat_checks_every_subscribed_topic_once(broker: FakeBroker) -> None:
    access = FakeAccess(READ_G)
    broker.access = access
    broker.request(68, 1, group_id="g", subscribed_topic_names=["t", "u", "t"])
    assert [one.name for one in access.requests] == ["g", "t", "u"]


def test_denied_init_producer_id_hides_invalid_arguments(broker: FakeBroker) -> None:
    fields = {"transactional_id": "x", "producer_id": 5, "producer_epoch": -1}
    broker.access = FakeAccess()
    assert broker.request(22, 4, **fields).error_code is TXN_DENIED
    broker.access = FakeAccess(WRITE_X)
    assert broker.request(22, 4, **fields).error_code is ErrorCode.invalid_request


def test_two_phase_commit_needs_its_own_permission(tmp_path: Path) -> None:
    broker = FakeBroker(tmp_path)
    broker.transactions = HostedTransactions(TransactionSettings(two_phase_commit=True))
    fields = {"transactional_id": "x", "producer_id": -1, "producer_epoch": -1, "enable2_pc": True}
    broker.access = FakeAccess(WRITE_X)
    assert broker.request(22, 6, **fields).error_code is TXN_DENIED
    broker.access = FakeAccess(WRITE_X, transaction("x", Operation.TWO_PHASE_COMMIT))
    assert broker.request(22, 6, **fields).error_code is NONE


def test_idempotent_producer_may_write_any_topic_instead(broker: FakeBroker) -> None:
    access = FakeAccess(topic("whatever", Operation.WRITE))
    broker.access = access
    assert broker.request(22, 4, transactional_id=None, producer_id=-1, producer_epoch=-1).error_code is NONE
    assert [one[0] for one in access.requests_by_type] == [Operation.WRITE]
    assert access.logged_denials() == []


def test_internal_topics_are_denied_to_clients_without_a_check(broker: FakeBroker) -> None:
    access = FakeAccess(WRITE_X, topic("__consumer_offsets", Operation.WRITE))
    broker.access = access
    topics = [{"name": "__consumer_offsets", "partitions": [0]}]
    response = broker.request(24, 3, v3_and_below_transactional_id="x", v3_and_below_topics=topics)
    (found,) = response.results_by_topic_v3_and_below
    assert [one.partition_error_code for one in found.results_by_partition] == [TOPIC_DENIED]
    assert [one.name for one in access.requests] == ["x"]


def test_denied_topic_comes_before_an_unknown_one_in_a_transaction(broker: FakeBroker) -> None:
    broker.access = FakeAccess(WRITE_X, topic("gone", Operation.WRITE))
    topics = [{"name": name, "partitions": [0]} for name in ("t", "gone", "secret")]
    response = broker.request(24, 3, v3_and_below_transactional_id="x", v3_and_below_topics=topics)
    found = {
        one.name: one.results_by_partition[0].partition_error_code for one in response.results_by_topic_v3_and_below
    }
    assert found == {"t": TOPIC_DENIED, "gone": UNKNOWN_TOPIC, "secret": TOPIC_DENIED}


def test_brokers_need_no_topic_permission_in_transactions(broker: FakeBroker) -> None:
    access = FakeAccess(cluster(Operation.CLUSTER_ACTION))
    broker.access = access
    one = {"transactional_id": "x", "producer_id": PRODUCER_ID, "producer_epoch": 0, "verify_only": True}
    response = broker.request(24, 5, transactions=[one | {"topics": [{"name": "t", "partitions": [0]}]}])
    assert response.error_code is NONE
    assert len(access.requests) == 1


def test_share_coordinators_of_old_versions_are_invalid_before_the_check(broker: FakeBroker) -> None:
    access = FakeAccess()
    broker.access = access
    (found,) = broker.request(10, 5, key_type=2, coordinator_keys=["g:a:0"]).coordinators
    assert (found.error_code, access.requests) == (ErrorCode.invalid_request, [])


def test_denied_list_groups_returns_no_error(broker: FakeBroker) -> None:
    broker.access = FakeAccess()
    response = broker.request(16, 5)
    assert (response.error_code, response.groups) == (NONE, ())


def test_denied_markers_of_many_producers(broker: FakeBroker) -> None:
    broker.access = FakeAccess()
    topics = [{"name": "t", "partition_indexes": [0, 1]}, {"name": "gone", "partition_indexes": [0]}]
    markers = [{"producer_id": one, "topics": topics} for one in (7, 8)]
    response = broker.request(27, 2, markers=markers)
    assert {one.producer_id for one in response.markers} == {7, 8}
    codes = {part.error_code for one in response.markers for topic in one.topics for part in topic.partitions}
    assert codes == {CLUSTER_DENIED}


# ---- many groups, authorized operations


@pytest.mark.parametrize("version", [3, 6])
def test_describe_groups_returns_the_authorized_operations_of_each_group(broker: FakeBroker, version: int) -> None:
    broker.access = FakeAccess(DESCRIBE_G, READ_G)
    fields = {"groups": ["g", "h"], "include_authorized_operations": True}
    groups = {one.group_id: one for one in broker.request(15, version, **fields).groups}
    assert groups["g"].authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert groups["h"].authorized_operations == NOT_REQUESTED
    broker.access = UNRESTRICTED
    assert broker.request(15, version, **fields | {"groups": ["g"]}).groups[0].authorized_operations == 3400


def test_many_groups_are_checked_in_slices(broker: FakeBroker) -> None:
    names = [f"g{number}" for number in range(1_300)]
    broker.access = FakeAccess(*(group(one, Operation.DESCRIBE) for one in names[::2]))
    groups = broker.request(15, 6, groups=names).groups
    assert [one.group_id for one in groups] == names[1::2] + names[::2]
    assert {one.error_code for one in groups[:650]} == {GROUP_DENIED}
    broker.access = FakeAccess(*(group(one, Operation.DELETE) for one in names[::2]))
    results = broker.request(42, 2, groups_names=names).results
    assert [one.group_id for one in results] == names[::2] + names[1::2]
    assert {one.error_code for one in results[650:]} == {GROUP_DENIED}


def test_consumer_group_describe_hides_a_group_with_a_denied_target_assignment(broker: FakeBroker) -> None:
    broker.access = FakeAccess(group("members", Operation.DESCRIBE), DESCRIBE_G)
    groups = broker.request(69, 1, group_ids=["members", "secret", "g"], include_authorized_operations=True).groups
    assert [(one.group_id, one.error_code, one.group_state, one.group_epoch) for one in groups] == [
        ("secret", GROUP_DENIED, "", 0),
        ("members", TOPIC_DENIED, "", 0),
        ("g", ErrorCode.group_id_not_found, "", 0),
    ]


def test_offset_for_leader_epoch_lists_denied_topics_last(broker: FakeBroker) -> None:
    broker.access = FakeAccess(topic("u", Operation.DESCRIBE))
    topics = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in ("t", "u")]
    response = broker.request(23, 4, replica_id=-1, topics=topics)
    assert [(one.topic, one.partitions[0].error_code) for one in response.topics] == [("u", NONE), ("t", TOPIC_DENIED)]


def test_list_offsets_lists_denied_topics_last(broker: FakeBroker) -> None:
    broker.access = FakeAccess(topic("u", Operation.DESCRIBE))
    topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in ("t", "u", "gone")]
    response = broker.request(2, 10, replica_id=-1, topics=topics)
    assert by_topic(response) == [("u", [NONE]), ("t", [TOPIC_DENIED]), ("gone", [TOPIC_DENIED])]
