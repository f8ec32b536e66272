"""Console actions against a fake cluster: each action does what its preview showed, and invalid actions are refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.admin import Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.config_description import DescribedConfig
from odradek.client.coordinators import Coordinator
from odradek.client.errors import TimedOut
from odradek.client.groups import EMPTY, GroupDescription, GroupMember
from odradek.client.offset_reset import ResetPlan
from odradek.client.reassignment_plan import Purpose
from odradek.client.reassignments import Reassignment
from odradek.console.actions import configs, groups, reassignments, topics
from odradek.console.actions.action import Refused
from odradek.console.actions.configs import AlterConfig
from odradek.console.actions.groups import DeleteGroup, ResetOffsets
from odradek.console.actions.reassignments import ChangeReplicas, ReassignPartitions
from odradek.console.actions.topics import CloneTopic
from tests.unit.console.snapshots import log_dir, partition, snapshot, topic

FIRST = TopicPartition("orders", 0)
NO_CLUSTER = cast(Cluster, object())
SEEN = DescribedConfig(
    name="retention.ms",
    value="100",
    source="DYNAMIC_TOPIC_CONFIG",
    default="7",
    documentation="",
    is_sensitive=False,
    is_read_only=False,
    is_own=True,
)


class FakeAdmin:
    """Fake of Admin, Groups and Reassignments that records every change."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.described: Any = None
        self.committed: dict[TopicPartition, int] = {}
        self.reassigning: list[Reassignment] = []
        self.refused: dict[TopicPartition, KafkaError] = {}

    def __call__(self, cluster: Cluster) -> "FakeAdmin":
        return self

    def alter_configs(self, resource: Resource, *, changes: Any, removals: Any, validate_only: bool) -> None:
        if not validate_only:
            self.done.append((resource.name, dict(changes), tuple(removals)))

    def create_topic(self, name: str, *, validate_only: bool, **given: Any) -> None:
        if not validate_only:
            self.done.append((name, given))

    def describe(self, ids: list[str]) -> dict[str, Any]:
        return {ids[0]: self.described}

    def offsets(self, ids: list[str]) -> dict[str, Any]:
        return {ids[0]: self.committed}

    def commit(self, group: str, offsets: Any) -> None:
        self.done.append((group, dict(offsets)))

    def list_ongoing(self) -> list[Reassignment]:
        return self.reassigning

    def start(self, wanted: Any) -> dict[TopicPartition, KafkaError]:
        self.done.append(dict(wanted))
        return self.refused


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(configs, "Admin", fake)
    monkeypatch.setattr(topics, "Admin", fake)
    monkeypatch.setattr(groups, "Admin", fake)
    monkeypatch.setattr(groups, "Groups", fake)
    monkeypatch.setattr(reassignments, "Reassignments", fake)
    return fake


def change(value: str | None) -> AlterConfig:
    return AlterConfig(resource=Resource(ResourceType.TOPIC, "orders"), config="retention.ms", value=value, seen=SEEN)


def test_config_preview_shows_value_before_and_after(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "describe_configs", lambda cluster, resource: [SEEN])
    preview = change("200").preview(NO_CLUSTER)
    assert [(row.text("now"), row.text("then")) for row in preview.rows] == [
        ("100", "200"),
        ("this topic", "topic orders"),
    ]
    assert change("100").preview(NO_CLUSTER).is_empty
    assert admin.done == []
    monkeypatch.setattr(configs, "wait_until_applied", lambda cluster, resource, name, is_applied: None)
    assert change("200").carry_out(NO_CLUSTER) == "retention.ms of topic orders is set to 200."
    assert change(None).carry_out(NO_CLUSTER) == "retention.ms of topic orders is removed."
    assert admin.done == [("orders", {"retention.ms": "200"}, ()), ("orders", {}, ("retention.ms",))]


def test_concurrent_config_change_is_not_overwritten(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    now = replace(SEEN, value="150")
    monkeypatch.setattr(configs, "describe_configs", lambda cluster, resource: [now])
    with pytest.raises(Refused, match=r"was changed in the meantime, from '100' to '150'"):
        change("200").carry_out(NO_CLUSTER)
    assert admin.done == []


def test_config_outcome_reports_brokers_that_have_not_applied_it(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(cluster: Cluster, _: Resource, name: str, is_applied: Callable[[DescribedConfig], bool]) -> None:
        assert not is_applied(SEEN)
        assert is_applied(replace(SEEN, value="200"))
        raise TimedOut("the change", 5.0, None)

    monkeypatch.setattr(configs, "describe_configs", lambda cluster, resource: [SEEN])
    monkeypatch.setattr(configs, "wait_until_applied", time_out)
    outcome = change("200").carry_out(NO_CLUSTER)
    assert outcome == "retention.ms of topic orders is set to 200; not all brokers have applied it yet."


def test_config_that_is_not_set_cannot_be_removed(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    inherited = replace(SEEN, is_own=False)
    monkeypatch.setattr(configs, "describe_configs", lambda cluster, resource: [inherited])
    with pytest.raises(Refused, match="there is nothing to remove"):
        replace(change(None), seen=inherited).preview(NO_CLUSTER)


def test_sensitive_values_are_not_in_the_audit_log() -> None:
    assert replace(change("secret"), seen=replace(SEEN, is_sensitive=True)).details() == {"config": "retention.ms"}


def group(state: str, *members: GroupMember) -> GroupDescription:
    return GroupDescription(
        id="g",
        type="classic",
        state=state,
        protocol_type="consumer",
        assignor="",
        coordinator=Coordinator(1, Address("h", 1)),
        members=members,
    )


class Layouts:
    """Fake cluster with one topic."""

    def retry(self, what: str, request: Any) -> Any:
        return request()

    def layout(self, names: Any) -> Any:
        return snapshot(topic("orders", partition(0, (1,)), partition(1, (1,))))

    def topics(self, names: Any) -> Any:
        return self.layout(names).topics


ONE_TOPIC = cast(Cluster, Layouts())


def test_offsets_are_reset_to_the_previewed_offsets(admin: FakeAdmin) -> None:
    admin.described = group(EMPTY)
    admin.committed = {FIRST: 10, TopicPartition("gone", 0): 5}
    ends = iter([3, 4])
    reset = ResetOffsets(
        group="g",
        topics=(),
        offset_target=lambda admin, partitions, committed: ResetPlan(offsets=dict.fromkeys(partitions, next(ends))),
        described="somewhere",
    )
    with pytest.raises(Refused, match="Open the preview first"):
        reset.carry_out(ONE_TOPIC)
    (row,) = reset.preview(ONE_TOPIC).rows
    assert [row.text(name) for name in ("partition", "committed", "new", "moved")] == ["orders-0", "10", "3", "-7"]
    reset.carry_out(ONE_TOPIC)
    assert admin.done == [("g", {FIRST: 3})]
    assert reset.details() == {"to": "somewhere", "offsets": {"orders-0": 3}}


@pytest.mark.parametrize("action", ["reset", "delete"])
def test_group_with_members_cannot_be_reset_or_deleted(admin: FakeAdmin, action: str) -> None:
    member = GroupMember(id="m", instance_id=None, client_id="app\x00", host="h", assigned=())
    admin.described = group("Stable", member)
    no_target = cast(Any, None)
    attempted: Any = (
        DeleteGroup("g")
        if action == "delete"
        else ResetOffsets(group="g", topics=(), offset_target=no_target, described="")
    )
    with pytest.raises(Refused, match=r"Group g is Stable with 1 member \(app\\x00\)"):
        attempted.preview(ONE_TOPIC)
    admin.described = KafkaError(ErrorCode.group_id_not_found)
    with pytest.raises(Refused, match="Group 'g' no longer exists"):
        attempted.preview(ONE_TOPIC)


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = snapshot(
        topic("orders", partition(0, (1, 2)), partition(1, (2, 1))),
        disks={1: (log_dir(orders_0=500, orders_1=100),), 2: (log_dir(orders_0=500),), 3: (log_dir(),)},
    )
    monkeypatch.setattr(reassignments, "survey", lambda cluster: seen.survey)


@pytest.mark.usefixtures("surveyed")
def test_reassignment_does_what_the_preview_showed(admin: FakeAdmin) -> None:
    reassignment = ReassignPartitions(wanted={FIRST: (3, 2)})
    preview = reassignment.preview(NO_CLUSTER)
    assert preview.sentence.startswith("Reassigns 1 partition: 500 B to copy.")
    assert [(row.text("from"), row.text("to")) for row in preview.rows] == [("1, 2", "3, 2")]
    assert reassignment.carry_out(NO_CLUSTER) == "1 partition being reassigned."
    assert admin.done == [{FIRST: (3, 2)}]
    assert ReassignPartitions(wanted={FIRST: (1, 2)}).preview(NO_CLUSTER).is_empty


@pytest.mark.usefixtures("surveyed")
def test_reassignment_plan_drains_a_broker(admin: FakeAdmin) -> None:
    reassignment = ReassignPartitions(purpose=Purpose(drain=frozenset({1})))
    assert {row.text("to") for row in reassignment.preview(NO_CLUSTER).rows} <= {"3, 2", "2, 3"}
    assert reassignment.target == "drain brokers 1"


@pytest.mark.usefixtures("surveyed")
@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({FIRST: (9,)}, "Broker 9 is not online. Online brokers: 1, 2, 3"),
        ({FIRST: (1, 1)}, "each once"),
        ({FIRST: ()}, "Enter the brokers"),
        ({TopicPartition("orders", 7): (1,)}, "Partition orders-7 no longer exists"),
    ],
)
def test_invalid_reassignments_are_refused(
    admin: FakeAdmin, wanted: dict[TopicPartition, tuple[int, ...]], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        ReassignPartitions(wanted=wanted).preview(NO_CLUSTER)


@pytest.mark.usefixtures("surveyed")
def test_partition_being_reassigned_cannot_be_reassigned_again(admin: FakeAdmin) -> None:
    admin.reassigning = [Reassignment(partition=FIRST, replicas=(1, 2, 3), adding=(3,), removing=(1,))]
    with pytest.raises(Refused, match="orders-0 is already being reassigned"):
        ReassignPartitions(wanted={FIRST: (3, 2)}).preview(NO_CLUSTER)


@pytest.mark.usefixtures("surveyed")
def test_unknown_brokers_and_impossible_plans_are_refused(admin: FakeAdmin) -> None:
    with pytest.raises(Refused, match=r"Broker 9 does not exist\. Registered brokers: 1, 2, 3"):
        ReassignPartitions(purpose=Purpose(drain=frozenset({9}))).preview(NO_CLUSTER)
    with pytest.raises(Refused, match="Add brokers, or drain fewer"):
        ReassignPartitions(purpose=Purpose(drain=frozenset({1, 2}))).preview(NO_CLUSTER)


@pytest.mark.usefixtures("surveyed")
def test_replicas_are_added_by_the_previewed_reassignments(admin: FakeAdmin) -> None:
    more = ChangeReplicas(topic="orders", count=3)
    assert [(row.text("from"), row.text("to")) for row in more.preview(NO_CLUSTER).rows] == [
        ("1, 2", "1, 2, 3"),
        ("2, 1", "2, 1, 3"),
    ]
    more.carry_out(NO_CLUSTER)
    assert admin.done == [{FIRST: (1, 2, 3), TopicPartition("orders", 1): (2, 1, 3)}]
    assert (more.target, more.details()["replicas"]) == ("topic orders", 3)
    assert ChangeReplicas(topic="orders", count=2).preview(NO_CLUSTER).is_empty
    with pytest.raises(Refused, match="Enter a number from 1 to 3"):
        ChangeReplicas(topic="orders", count=4).preview(NO_CLUSTER)
    with pytest.raises(Refused, match="Topic 'gone' no longer exists"):
        ChangeReplicas(topic="gone", count=1).preview(NO_CLUSTER)


def test_cloned_topic_copies_only_configs_set_for_the_topic(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    inherited = replace(SEEN, name="segment.ms", is_own=False)
    monkeypatch.setattr(topics, "describe_configs", lambda cluster, resource: [SEEN, inherited])
    clone = CloneTopic("orders", "orders-copy")
    with pytest.raises(Refused, match="Open the preview first"):
        clone.carry_out(ONE_TOPIC)
    assert (
        clone.preview(ONE_TOPIC).sentence == "Creates topic orders-copy with 2 partitions and 1 replica per partition."
    )
    assert (
        clone.carry_out(ONE_TOPIC) == "Topic orders-copy is created with the settings of orders, without its records."
    )
    given = {"partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "100"}}
    assert admin.done == [("orders-copy", given)]
    assert clone.details() == {"like": "orders"} | given
