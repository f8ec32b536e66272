"""The consumer protocol as its members see it."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitAnswer,
    CommitOffsets,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    DeleteGroups,
    FetchAnswer,
    FetchOffsets,
    PartitionOffset,
    TopicIdPartitions,
    TopicOffsets,
)
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.settings import Bounds, GroupSettings
from tests.unit.core.groups.cluster import Cluster, Consumer
from tests.unit.core.groups.host import Host

START_MS = 1_000_000
AT_ONCE = GroupSettings(consumer_assignment_interval=Bounds(0, 0, 15_000))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(a=6, b=3)


@pytest.fixture
def host(cluster: Cluster) -> Host:
    return Host(AT_ONCE, now_ms=START_MS, topics=cluster)


def settle(*consumers: Consumer) -> None:
    """Until nobody is told anything new."""
    for _ in range(10):
        epochs = [(consumer.epoch, consumer.beat().assignment) for consumer in consumers]
        if all(assignment is None for _, assignment in epochs):
            return
    raise AssertionError("they never come to rest")


def test_who_comes_first_gets_everything(host: Host, cluster: Cluster) -> None:
    answer = Consumer(host, "m1").join()
    everything = (TopicIdPartitions(cluster.id_of("a"), (0, 1, 2, 3, 4, 5)),)
    assert answer == ConsumerGroupHeartbeatAnswer(ErrorCode.none, None, "m1", 2, 5_000, everything)


def test_a_partition_is_given_up_before_somebody_else_gets_it(host: Host) -> None:
    first, second = Consumer(host, "m1"), Consumer(host, "m2")
    first.join()
    assert second.join().assignment == ()
    assert second.epoch == 3
    told = first.beat()
    assert (told.member_epoch, told.assignment is not None) == (2, True)
    assert len(first.partitions) == 3
    assert second.beat().assignment is None
    assert first.beat().member_epoch == 3
    second.beat()
    assert len(second.partitions) == 3
    assert not first.partitions & second.partitions


def test_a_heartbeat_that_changes_nothing_writes_nothing(host: Host) -> None:
    members = [Consumer(host, f"m{number}") for number in range(3)]
    for member in members:
        member.join()
    settle(*members)
    host.appended.clear()
    for member in members:
        assert member.beat() == ConsumerGroupHeartbeatAnswer(ErrorCode.none, None, member.name, 4, 5_000, None)
    assert not host.appended


def test_whoever_is_silent_for_a_session_is_gone(host: Host) -> None:
    first, second = Consumer(host, "m1"), Consumer(host, "m2")
    first.join()
    second.join()
    settle(first, second)
    host.pass_time(30_000)
    first.beat()
    host.pass_time(15_000)
    first.beat()
    assert len(first.partitions) == 6
    assert second.beat().error is ErrorCode.unknown_member_id


def test_who_does_not_give_up_in_time_is_gone(host: Host) -> None:
    first, second = Consumer(host, "m1", rebalance_timeout_ms=10_000), Consumer(host, "m2")
    first.join()
    second.join()
    first.beat()
    host.pass_time(9_999)
    second.beat()
    assert not second.partitions
    host.pass_time(1)
    second.beat()
    assert len(second.partitions) == 6
    assert first.beat().error is ErrorCode.unknown_member_id


def test_epochs_fence(host: Host) -> None:
    member = Consumer(host, "m1")
    member.join()
    member.epoch = 7
    answer = member.beat()
    assert answer.error is ErrorCode.fenced_member_epoch
    assert answer.error_message == (
        "The consumer group member has a greater member epoch (7) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin."
    )
    assert member.join().error is ErrorCode.none


def test_an_answer_that_was_lost_is_given_again(host: Host, cluster: Cluster) -> None:
    member = Consumer(host, "m1")
    member.join()
    host.pass_time(1)
    cluster.create("a", 8)
    host.coordinator.topics_changed(["a"], any_created=False)
    member.beat()
    assert (member.epoch, len(member.partitions)) == (3, 8)
    member.epoch = 2
    member.held = {}
    assert member.beat().member_epoch == 3


def test_a_static_member_comes_back_to_what_it_had(host: Host) -> None:
    members = [Consumer(host, f"m{number}", instance_id=f"i{number}") for number in range(2)]
    for member in members:
        member.join()
    settle(*members)
    had = members[0].partitions
    assert Consumer(host, "other", instance_id="i0").join().error is ErrorCode.unreleased_instance_id
    assert members[0].leave(-2).member_epoch == -2
    again = Consumer(host, "m0-again", instance_id="i0")
    assert again.join().error is ErrorCode.none
    assert again.partitions == had
    assert members[1].beat().assignment is None
    members[0].epoch = 2
    assert members[0].beat().error is ErrorCode.fenced_instance_id


def test_regular_expressions_are_resolved_and_follow_new_topics(host: Host, cluster: Cluster) -> None:
    cluster.create("orders-eu", 2)
    member = Consumer(host, "m1", topics=(), regex="orders-.*")
    member.join()
    assert not member.partitions
    host.run_deadlines()
    host.commit()
    member.beat()
    assert member.partitions == {(cluster.id_of("orders-eu"), 0), (cluster.id_of("orders-eu"), 1)}
    cluster.create("orders-us", 1)
    host.coordinator.topics_changed(["orders-us"], any_created=True)
    host.pass_time(10_001)
    member.beat()
    host.run_deadlines()
    host.commit()
    member.beat()
    assert (cluster.id_of("orders-us"), 0) in member.partitions


def test_expressions_are_resolved_a_slice_at_a_time(host: Host, cluster: Cluster) -> None:
    for number in range(12_000):
        cluster.create(f"topic-{number}", 1)
    member = Consumer(host, "m1", topics=(), regex="topic-119.*")
    member.join()
    steps = 0
    while host.coordinator.next_deadline_ms() == host.now_ms:
        outcome = host.coordinator.pass_deadline(host.now_ms)
        assert outcome is not None
        steps += 1
        host.take(outcome)
    host.commit()
    assert steps == 3
    member.beat()
    assert len(member.partitions) == 111


def test_an_expression_that_is_none_is_refused(host: Host) -> None:
    answer = Consumer(host, "m1", topics=None, regex="[a").join()
    assert answer.error is ErrorCode.invalid_regular_expression
    assert answer.error_message == "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ]."
    assert not host.log


def test_an_expression_cannot_explode(host: Host, cluster: Cluster) -> None:
    cluster.create("a" * 200, 1)
    member = Consumer(host, "m1", topics=None, regex="(a*)*(a*)*(a*)*b")
    assert member.join().error is ErrorCode.none
    host.run_deadlines()
    assert Consumer(host, "m2", topics=None, regex="((a{1,500}){1,500}){1,500}").join().error is (
        ErrorCode.invalid_regular_expression
    )


def test_members_commit_and_fetch_by_their_epochs(host: Host, cluster: Cluster) -> None:
    first, second = Consumer(host, "m1"), Consumer(host, "m2")
    first.join()
    second.join()
    settle(first, second)
    kept = next(iter(first.partitions))[1]
    lost = next(iter(second.partitions))[1]

    def commit(epoch: int, partition: int) -> ErrorCode:
        topics = [TopicOffsets("a", [PartitionOffset(partition, 5)], cluster.id_of("a"))]
        answer = host.ask(CommitOffsets(10, "g", epoch, "m1", None, topics))
        assert isinstance(answer, CommitAnswer)
        return answer.topics[0].partitions[0].error

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
        answer = host.ask(FetchOffsets("g", None, member_id=member_id, member_epoch=epoch))
        assert isinstance(answer, FetchAnswer)
        assert answer.error is error


def test_a_coordinator_that_takes_over_knows_everything(host: Host) -> None:
    members = [Consumer(host, f"m{number}") for number in range(3)]
    for member in members:
        member.join()
    settle(*members)
    before = host.coordinator.describe_consumer_groups(["g"])
    after = host.failover()
    assert after.coordinator.describe_consumer_groups(["g"]) == before
    for member in members:
        member.host = after
        assert member.beat().assignment is None


def test_a_group_that_was_left_can_be_deleted(host: Host) -> None:
    member = Consumer(host, "m1")
    member.join()
    host.ask(DeleteGroups(["g"]))
    assert host.coordinator.group("g") is not None
    assert member.leave().member_epoch == -1
    host.ask(DeleteGroups(["g"]))
    assert host.coordinator.group("g") is None
    assert host.failover().coordinator.group("g") is None


def test_members_who_come_at_once_are_assigned_at_once(cluster: Cluster) -> None:
    host = Host(now_ms=START_MS, topics=cluster)
    members = [Consumer(host, f"m{number}") for number in range(4)]
    for member in members:
        member.join()
    (described,) = host.coordinator.describe_consumer_groups(["g"])
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Assigning", 5, 2)
    host.pass_time(1_000)
    settle(*members)
    (described,) = host.coordinator.describe_consumer_groups(["g"])
    assert (described.state, described.assignment_epoch) == ("Stable", 5)


def test_why_members_were_interrupted_is_remembered(host: Host, cluster: Cluster) -> None:
    first, second = Consumer(host, "m1"), Consumer(host, "m2")
    first.join()
    second.join()
    host.pass_time(1)
    settle(first, second)
    group = host.coordinator.group("g")
    assert group is not None
    began, came = group.rebalances
    assert (began.cause, began.began_ms, began.ended_ms) == ("member m1 has come", START_MS, START_MS)
    assert (came.cause, came.began_ms, came.ended_ms) == ("member m2 has come", START_MS, START_MS + 1)
    second.subscribe("b")
    cluster.create("a", 7)
    host.coordinator.topics_changed(["a"], any_created=False)
    first.beat()
    second.leave()
    assert [one.cause for one in group.rebalances][2:] == [
        "member m2 wants other topics",
        "topics that are read have changed",
        "member m2 has left",
    ]
    assert group.rebalances[-1].ended_ms is None
    settle(first)
    assert all(one.ended_ms is not None for one in group.rebalances)
    host.pass_time(45_000)
    assert group.rebalances[-1].cause == "member m1 was not heard of any more"


def test_five_hundred_members_are_assigned_within_three_heartbeats() -> None:
    host = Host(now_ms=START_MS, topics=Cluster(a=1_000))
    members = [Consumer(host, f"m{number}") for number in range(500)]
    for member in members:
        member.join()
    for _ in range(2):
        host.pass_time(5_000)
        for member in members:
            member.beat()
    assert [len(member.partitions) for member in members] == [2] * 500
    assert len({partition for member in members for partition in member.partitions}) == 1_000


def test_a_group_may_have_settings_of_its_own(cluster: Cluster) -> None:
    own = {"g": {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "1000000"}}
    configs = GroupConfigs(AT_ONCE, lambda group_id: own.get(group_id, {}))
    host = Host(AT_ONCE, now_ms=START_MS, topics=cluster, configs=configs)
    assert Consumer(host, "m1").join().heartbeat_interval_ms == 7_000
    assert Consumer(host, "m1", group_id="other").join().heartbeat_interval_ms == 5_000
    host.pass_time(59_999)
    assert host.coordinator.list_groups(["stable"])[0].group_id == "g"
    host.pass_time(1)
    assert not host.coordinator.list_groups(["stable"])


def test_the_brokers_assignment_interval_may_change_while_it_runs() -> None:
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


def test_a_full_group_takes_nobody(cluster: Cluster) -> None:
    host = Host(GroupSettings(consumer_group_max_size=1), now_ms=START_MS, topics=cluster)
    Consumer(host, "m1").join()
    answer = Consumer(host, "m2").join()
    assert answer.error is ErrorCode.group_max_size_reached
    assert answer.error_message == "The consumer group has reached its maximum capacity of 1 members."


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
def test_what_cannot_be_meant_is_refused(host: Host, changes: dict[str, object], error: str, message: str) -> None:
    command = ConsumerGroupHeartbeat(
        1, "g", "m", 0, "client", "host", rebalance_timeout_ms=1, topic_names=("a",), owned=()
    )
    answer = host.ask(command._replace(**changes))  # type: ignore[arg-type]
    assert answer == ConsumerGroupHeartbeatAnswer(ErrorCode[error], message)
    assert not host.log
