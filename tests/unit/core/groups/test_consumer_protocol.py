"""The consumer protocol as its members see it."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitOffsets,
    CommitResponse,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DeleteGroups,
    FetchOffsets,
    FetchOffsetsResponse,
    PartitionOffset,
    TopicIdPartitions,
    TopicOffsets,
)
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.settings import Bounds, GroupSettings
from tests.unit.core.groups.cluster import Cluster, Consumer
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness

START_MS = 1_000_000
AT_ONCE = GroupSettings(consumer_assignment_interval=Bounds(0, 0, 15_000))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(a=6, b=3)


@pytest.fixture
def harness(cluster: Cluster) -> CoordinatorHarness:
    return CoordinatorHarness(AT_ONCE, now_ms=START_MS, topics=cluster)


def apply_assignment(*consumers: Consumer) -> None:
    """Until no member gets a new assignment."""
    for _ in range(10):
        epochs = [(consumer.epoch, consumer.beat().assignment) for consumer in consumers]
        if all(assignment is None for _, assignment in epochs):
            return
    raise AssertionError("they never come to rest")


def test_first_member_gets_all_partitions(harness: CoordinatorHarness, cluster: Cluster) -> None:
    response = Consumer(harness, "m1").join()
    everything = (TopicIdPartitions(cluster.id_of("a"), (0, 1, 2, 3, 4, 5)),)
    assert response == ConsumerGroupHeartbeatResponse(ErrorCode.none, None, "m1", 2, 5_000, everything)


def test_partition_is_revoked_before_it_is_assigned_again(harness: CoordinatorHarness) -> None:
    first, second = Consumer(harness, "m1"), Consumer(harness, "m2")
    first.join()
    assert second.join().assignment == ()
    assert second.epoch == 3
    response = first.beat()
    assert (response.member_epoch, response.assignment is not None) == (2, True)
    assert len(first.partitions) == 3
    assert second.beat().assignment is None
    assert first.beat().member_epoch == 3
    second.beat()
    assert len(second.partitions) == 3
    assert not first.partitions & second.partitions


def test_heartbeat_without_changes_writes_no_records(harness: CoordinatorHarness) -> None:
    members = [Consumer(harness, f"m{number}") for number in range(3)]
    for member in members:
        member.join()
    apply_assignment(*members)
    harness.appended.clear()
    for member in members:
        assert member.beat() == ConsumerGroupHeartbeatResponse(ErrorCode.none, None, member.name, 4, 5_000, None)
    assert not harness.appended


def test_consumer_is_fenced_when_its_session_expires(harness: CoordinatorHarness) -> None:
    first, second = Consumer(harness, "m1"), Consumer(harness, "m2")
    first.join()
    second.join()
    apply_assignment(first, second)
    harness.pass_time(30_000)
    first.beat()
    harness.pass_time(15_000)
    first.beat()
    assert len(first.partitions) == 6
    assert second.beat().error is ErrorCode.unknown_member_id


def test_consumer_is_fenced_when_it_does_not_revoke_in_time(harness: CoordinatorHarness) -> None:
    first, second = Consumer(harness, "m1", rebalance_timeout_ms=10_000), Consumer(harness, "m2")
    first.join()
    second.join()
    first.beat()
    harness.pass_time(9_999)
    second.beat()
    assert not second.partitions
    harness.pass_time(1)
    second.beat()
    assert len(second.partitions) == 6
    assert first.beat().error is ErrorCode.unknown_member_id


def test_stale_member_epoch_is_fenced(harness: CoordinatorHarness) -> None:
    member = Consumer(harness, "m1")
    member.join()
    member.epoch = 7
    response = member.beat()
    assert response.error is ErrorCode.fenced_member_epoch
    assert response.error_message == (
        "The consumer group member has a greater member epoch (7) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin."
    )
    assert member.join().error is ErrorCode.none


def test_previous_epoch_is_accepted_after_a_lost_response(harness: CoordinatorHarness, cluster: Cluster) -> None:
    member = Consumer(harness, "m1")
    member.join()
    harness.pass_time(1)
    cluster.create("a", 8)
    harness.coordinator.on_topics_changed(["a"], any_created=False)
    member.beat()
    assert (member.epoch, len(member.partitions)) == (3, 8)
    member.epoch = 2
    member.held = {}
    assert member.beat().member_epoch == 3


def test_static_consumer_rejoins_with_its_assignment(harness: CoordinatorHarness) -> None:
    members = [Consumer(harness, f"m{number}", instance_id=f"i{number}") for number in range(2)]
    for member in members:
        member.join()
    apply_assignment(*members)
    had = members[0].partitions
    assert Consumer(harness, "other", instance_id="i0").join().error is ErrorCode.unreleased_instance_id
    assert members[0].leave(-2).member_epoch == -2
    again = Consumer(harness, "m0-again", instance_id="i0")
    assert again.join().error is ErrorCode.none
    assert again.partitions == had
    assert members[1].beat().assignment is None
    members[0].epoch = 2
    assert members[0].beat().error is ErrorCode.fenced_instance_id


def test_regular_expression_subscription_includes_new_topics(harness: CoordinatorHarness, cluster: Cluster) -> None:
    cluster.create("orders-eu", 2)
    member = Consumer(harness, "m1", topics=(), regex="orders-.*")
    member.join()
    assert not member.partitions
    harness.run_deadlines()
    harness.commit()
    member.beat()
    assert member.partitions == {(cluster.id_of("orders-eu"), 0), (cluster.id_of("orders-eu"), 1)}
    cluster.create("orders-us", 1)
    harness.coordinator.on_topics_changed(["orders-us"], any_created=True)
    harness.pass_time(10_001)
    member.beat()
    harness.run_deadlines()
    harness.commit()
    member.beat()
    assert (cluster.id_of("orders-us"), 0) in member.partitions


def test_regular_expressions_are_resolved_in_slices(harness: CoordinatorHarness, cluster: Cluster) -> None:
    for number in range(12_000):
        cluster.create(f"topic-{number}", 1)
    member = Consumer(harness, "m1", topics=(), regex="topic-119.*")
    member.join()
    results = 0
    while harness.coordinator.next_deadline_ms() == harness.now_ms:
        result = harness.coordinator.expire_deadline(harness.now_ms)
        assert result is not None
        results += 1
        harness.take(result)
    harness.commit()
    assert results == 3
    member.beat()
    assert len(member.partitions) == 111


def test_invalid_regular_expression_is_rejected(harness: CoordinatorHarness) -> None:
    response = Consumer(harness, "m1", topics=None, regex="[a").join()
    assert response.error is ErrorCode.invalid_regular_expression
    assert response.error_message == "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ]."
    assert not harness.log


def test_regular_expression_matches_in_linear_time(harness: CoordinatorHarness, cluster: Cluster) -> None:
    cluster.create("a" * 200, 1)
    member = Consumer(harness, "m1", topics=None, regex="(a*)*(a*)*(a*)*b")
    assert member.join().error is ErrorCode.none
    harness.run_deadlines()
    assert Consumer(harness, "m2", topics=None, regex="((a{1,500}){1,500}){1,500}").join().error is (
        ErrorCode.invalid_regular_expression
    )


def test_consumers_commit_and_fetch_with_their_member_epochs(harness: CoordinatorHarness, cluster: Cluster) -> None:
    first, second = Consumer(harness, "m1"), Consumer(harness, "m2")
    first.join()
    second.join()
    apply_assignment(first, second)
    kept = next(iter(first.partitions))[1]
    lost = next(iter(second.partitions))[1]

    def commit(epoch: int, partition: int) -> ErrorCode:
        topics = [TopicOffsets("a", [PartitionOffset(partition, 5)], cluster.id_of("a"))]
        response = harness.execute(CommitOffsets(10, "g", epoch, "m1", None, topics))
        assert isinstance(response, CommitResponse)
        return response.topics[0].partitions[0].error

    assert commit(3, kept) is ErrorCode.none
    assert commit(2, kept) is ErrorCode.none
    assert commit(2, lost) is ErrorCode.stale_member_epoch
    assert commit(4, kept) is ErrorCode.stale_member_epoch
    for member_id, epoch, error in (
        ("m1", 3, ErrorCode.none),
        ("m1", 2, ErrorCode.stale_member_epoch),
        ("m9", 3, ErrorCode.unknown_member_id),
        (None, -1, ErrorCode.none),
    ):
        response = harness.execute(FetchOffsets("g", None, member_id=member_id, member_epoch=epoch))
        assert isinstance(response, FetchOffsetsResponse)
        assert response.error is error


def test_new_coordinator_loads_a_consumer_group(harness: CoordinatorHarness) -> None:
    members = [Consumer(harness, f"m{number}") for number in range(3)]
    for member in members:
        member.join()
    apply_assignment(*members)
    before = harness.coordinator.describe_consumer_groups(["g"])
    after = harness.failover()
    assert after.coordinator.describe_consumer_groups(["g"]) == before
    for member in members:
        member.harness = after
        assert member.beat().assignment is None


def test_empty_consumer_group_can_be_deleted(harness: CoordinatorHarness) -> None:
    member = Consumer(harness, "m1")
    member.join()
    harness.execute(DeleteGroups(["g"]))
    assert harness.coordinator.group("g") is not None
    assert member.leave().member_epoch == -1
    harness.execute(DeleteGroups(["g"]))
    assert harness.coordinator.group("g") is None
    assert harness.failover().coordinator.group("g") is None


def test_members_that_join_together_share_one_assignment(cluster: Cluster) -> None:
    harness = CoordinatorHarness(now_ms=START_MS, topics=cluster)
    members = [Consumer(harness, f"m{number}") for number in range(4)]
    for member in members:
        member.join()
    (described,) = harness.coordinator.describe_consumer_groups(["g"])
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Assigning", 5, 2)
    harness.pass_time(1_000)
    apply_assignment(*members)
    (described,) = harness.coordinator.describe_consumer_groups(["g"])
    assert (described.state, described.assignment_epoch) == ("Stable", 5)


def test_consumer_group_records_rebalance_reasons(harness: CoordinatorHarness, cluster: Cluster) -> None:
    first, second = Consumer(harness, "m1"), Consumer(harness, "m2")
    first.join()
    second.join()
    harness.pass_time(1)
    apply_assignment(first, second)
    group = harness.coordinator.group("g")
    assert group is not None
    began, came = group.rebalances
    assert (began.cause, began.began_ms, began.ended_ms) == ("member m1 has come", START_MS, START_MS)
    assert (came.cause, came.began_ms, came.ended_ms) == ("member m2 has come", START_MS, START_MS + 1)
    second.subscribe("b")
    cluster.create("a", 7)
    harness.coordinator.on_topics_changed(["a"], any_created=False)
    first.beat()
    second.leave()
    assert [one.cause for one in group.rebalances][2:] == [
        "member m2 wants other topics",
        "topics that are read have changed",
        "member m2 has left",
    ]
    assert group.rebalances[-1].ended_ms is None
    apply_assignment(first)
    assert all(one.ended_ms is not None for one in group.rebalances)
    harness.pass_time(45_000)
    assert group.rebalances[-1].cause == "member m1 was removed because its session expired"


def test_five_hundred_members_are_assigned_within_three_heartbeats() -> None:
    harness = CoordinatorHarness(now_ms=START_MS, topics=Cluster(a=1_000))
    members = [Consumer(harness, f"m{number}") for number in range(500)]
    for member in members:
        member.join()
    for _ in range(2):
        harness.pass_time(5_000)
        for member in members:
            member.beat()
    assert [len(member.partitions) for member in members] == [2] * 500
    assert len({partition for member in members for partition in member.partitions}) == 1_000


def test_group_configs_override_broker_configs(cluster: Cluster) -> None:
    own = {"g": {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "1000000"}}
    configs = GroupConfigs(AT_ONCE, lambda group_id: own.get(group_id, {}))
    harness = CoordinatorHarness(AT_ONCE, now_ms=START_MS, topics=cluster, configs=configs)
    assert Consumer(harness, "m1").join().heartbeat_interval_ms == 7_000
    assert Consumer(harness, "m1", group_id="other").join().heartbeat_interval_ms == 5_000
    harness.pass_time(59_999)
    assert harness.coordinator.list_groups(["stable"])[0].group_id == "g"
    harness.pass_time(1)
    assert not harness.coordinator.list_groups(["stable"])


def test_assignment_interval_is_dynamic() -> None:
    interval_ms = 1_000
    own = {"own": {"consumer.assignment.interval.ms": "3000"}}
    configs = GroupConfigs(GroupSettings(), lambda group_id: own.get(group_id, {}), lambda: interval_ms)
    assert configs.assignment_interval_ms("g") == 1_000
    interval_ms = 5_000
    assert configs.assignment_interval_ms("g") == 5_000
    assert configs.assignment_interval_ms("own") == 3_000
    # Never outside of the broker's bounds.
    interval_ms = 60_000
    assert configs.assignment_interval_ms("g") == 15_000


def test_full_consumer_group_rejects_members(cluster: Cluster) -> None:
    harness = CoordinatorHarness(GroupSettings(consumer_group_max_size=1), now_ms=START_MS, topics=cluster)
    Consumer(harness, "m1").join()
    response = Consumer(harness, "m2").join()
    assert response.error is ErrorCode.group_max_size_reached
    assert response.error_message == "The consumer group has reached its maximum capacity of 1 members."


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"member_id": ""}, "invalid_request", "MemberId can't be empty."),
        ({"group_id": " "}, "invalid_request", "GroupId can't be empty."),
        ({"instance_id": ""}, "invalid_request", "InstanceId can't be empty."),
        ({"rack_id": ""}, "invalid_request", "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "invalid_request", "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "invalid_request", "TopicPartitions must be empty when (re-)joining."),
        ({"member_epoch": -2}, "invalid_request", "InstanceId can't be null."),
        ({"member_epoch": -3}, "invalid_request", "MemberEpoch is invalid."),
        ({"member_epoch": 1}, "group_id_not_found", "Consumer group g not found."),
        ({"member_epoch": -1}, "group_id_not_found", "Group g not found."),
        (
            {"topic_names": None},
            "invalid_request",
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (
            {"server_assignor": "mine"},
            "unsupported_assignor",
            "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
def test_invalid_heartbeats_are_rejected(
    harness: CoordinatorHarness, changes: dict[str, object], error: str, message: str
) -> None:
    command = ConsumerGroupHeartbeat(
        1, "g", "m", 0, "client", "host", rebalance_timeout_ms=1, topic_names=("a",), owned=()
    )
    response = harness.execute(command._replace(**changes))  # type: ignore[arg-type]
    assert response == ConsumerGroupHeartbeatResponse(ErrorCode[error], message)
    assert not harness.log
