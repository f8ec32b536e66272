"""Group requests while coordinators load, move or are missing."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.errors import ClientError, TimedOut
from odradek.client.groups import GroupDescription, Groups
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import CLOSE_CONNECTION, METADATA, Handler, ScriptedBroker, in_turn

VERSIONS = {
    METADATA: (0, 12),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.OFFSET_DELETE: (0, 0),
}
ORDERS = TopicPartition("orders", 0)


def coordinator_at(broker: ScriptedBroker, code: ErrorCode = ErrorCode.none) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        found = tuple(
            chosen.new(
                "Coordinator",
                key=key,
                node_id=1,
                host=broker.address.host,
                port=broker.address.port,
                error_code=code,
                error_message=None,
            )
            for key in request.coordinator_keys
        )
        return chosen.new("FindCoordinatorResponse", throttle_time=milliseconds(0), coordinators=found)

    return handle


def scripted(handlers: dict[int, Handler], versions: dict[int, tuple[int, int]] | None = None) -> ScriptedBroker:
    broker = ScriptedBroker(handlers, {**VERSIONS, **(versions or {})})
    broker.handlers.setdefault(METADATA, broker.metadata({"orders": 1}))
    broker.handlers.setdefault(ApiKey.FIND_COORDINATOR, coordinator_at(broker))
    return broker


def groups_of(broker: ScriptedBroker, timeout_s: float = 5.0) -> Groups:
    return Groups(Cluster([broker.address], timeout_s=timeout_s))


def described(state: str, code: ErrorCode = ErrorCode.none, assignment: bytes = b"") -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        member = chosen.new(
            "DescribedGroupMember",
            member_id="m",
            group_instance_id=None,
            client_id="c",
            client_host="/h",
            member_metadata=b"",
            member_assignment=assignment,
        )
        return chosen.new(
            "DescribeGroupsResponse",
            throttle_time=milliseconds(0),
            groups=tuple(
                chosen.new(
                    "DescribedGroup",
                    error_code=code,
                    error_message=None,
                    group_id=group_id,
                    group_state=state,
                    protocol_type="consumer",
                    protocol_data="range",
                    members=(member,),
                )
                for group_id in request.groups
            ),
        )

    return handle


def committed(code: ErrorCode = ErrorCode.none, offset: int = 7) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        partition = chosen.new(
            "OffsetFetchResponsePartitions",
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=-1,
            metadata="",
            error_code=ErrorCode.none,
        )
        topic = chosen.new("OffsetFetchResponseTopics", name="orders", partitions=(partition,))
        return chosen.new(
            "OffsetFetchResponse",
            throttle_time=milliseconds(0),
            groups=tuple(
                chosen.new("OffsetFetchResponseGroup", group_id=one.group_id, topics=(topic,), error_code=code)
                for one in request.groups
            ),
        )

    return handle


def test_requests_are_retried_while_a_coordinator_loads_moves_or_dies() -> None:
    handlers = [
        committed(ErrorCode.coordinator_load_in_progress),
        committed(ErrorCode.not_coordinator),
        lambda request, chosen: CLOSE_CONNECTION,
        committed(),
    ]
    with scripted({ApiKey.OFFSET_FETCH: in_turn(handlers)}) as broker:
        assert groups_of(broker).offsets(["g"]) == {"g": {ORDERS: 7}}
        assert sum(hasattr(request, "coordinator_keys") for request in broker.requests) == 4


def test_only_failed_groups_are_retried() -> None:
    def first(request: Message, chosen: Schema) -> Any:
        """Of the first group all is known, the second is still being loaded."""
        known, loading = (
            committed()(request, chosen),
            committed(ErrorCode.coordinator_load_in_progress)(request, chosen),
        )
        both = (known.groups[0], loading.groups[1])
        return chosen.new("OffsetFetchResponse", throttle_time=milliseconds(0), groups=both)

    with scripted({ApiKey.OFFSET_FETCH: in_turn([first, committed(offset=9)])}) as broker:
        assert groups_of(broker).offsets(["a", "b"]) == {"a": {ORDERS: 7}, "b": {ORDERS: 9}}
        requested = [
            [one.group_id for one in request.groups] for request in broker.requests if hasattr(request, "groups")
        ]
        assert requested == [["a", "b"], ["b"]]


def test_a_missing_coordinator_times_out() -> None:
    with scripted({}) as broker:
        broker.handlers[ApiKey.FIND_COORDINATOR] = coordinator_at(broker, ErrorCode.coordinator_not_available)
        with pytest.raises(TimedOut, match="COORDINATOR_NOT_AVAILABLE") as caught:
            groups_of(broker, timeout_s=2.0).describe(["g"])
    assert caught.value.code is ErrorCode.coordinator_not_available


def test_a_broker_that_is_too_old_is_reported() -> None:
    with (
        scripted({}, {ApiKey.FIND_COORDINATOR: (0, 3)}) as broker,
        pytest.raises(ClientError, match=r"Apache Kafka 3\.0"),
    ):
        groups_of(broker).describe(["g"])
    with scripted({}, {ApiKey.OFFSET_FETCH: (1, 7)}) as broker, pytest.raises(ClientError, match=r"Apache Kafka 3\.0"):
        groups_of(broker).offsets(["g"])


@pytest.mark.parametrize(
    ("state", "code"), [("Dead", ErrorCode.none), ("", ErrorCode.group_id_not_found), ("", ErrorCode.invalid_group_id)]
)
def test_an_unknown_group_is_an_error(state: str, code: ErrorCode) -> None:
    with scripted({ApiKey.DESCRIBE_GROUPS: described(state, code)}) as broker:
        (result,) = groups_of(broker).describe(["g", "g"]).values()
    assert isinstance(result, KafkaError)
    assert result.code is (code if code is not ErrorCode.none else ErrorCode.group_id_not_found)


def test_consumer_groups_are_described_if_the_broker_supports_them() -> None:
    def consumer_groups(request: Message, chosen: Schema) -> Message:
        def assigned(*numbers: int) -> Message:
            topic = chosen.new("TopicPartitions", topic_id=None, topic_name="orders", partitions=numbers)
            return chosen.new("Assignment", topic_partitions=(topic,))

        member = chosen.new(
            "Member",
            member_id="m",
            instance_id="i",
            rack_id="r",
            member_epoch=3,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("orders",),
            subscribed_topic_regex="",
            assignment=assigned(1, 0),
            target_assignment=assigned(0),
            member_type=1,
        )
        return chosen.new(
            "ConsumerGroupDescribeResponse",
            throttle_time=milliseconds(0),
            groups=tuple(
                chosen.new(
                    "DescribedGroup",
                    error_code=ErrorCode.group_id_not_found if group_id == "old" else ErrorCode.none,
                    error_message=None,
                    group_id=group_id,
                    group_state="Reconciling",
                    group_epoch=4,
                    assignment_epoch=4,
                    assignor_name="uniform",
                    members=(member,),
                )
                for group_id in request.group_ids
            ),
        )

    handlers: dict[int, Handler] = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups,
        ApiKey.DESCRIBE_GROUPS: described("Stable"),
    }
    with scripted(handlers, {ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1)}) as broker:
        found = groups_of(broker).describe(["new", "old"])
    new, old = found["new"], found["old"]
    assert isinstance(new, GroupDescription)
    assert isinstance(old, GroupDescription)
    assert (new.type, new.epoch, new.is_active) == ("consumer", 4, True)
    assert (new.members[0].assigned, new.members[0].target) == ((ORDERS, TopicPartition("orders", 1)), (ORDERS,))
    assert (new.members[0].instance_id, new.members[0].rack, new.members[0].subscribed_pattern) == ("i", "r", None)
    assert (old.type, old.epoch, old.state) == ("classic", None, "Stable")


def test_the_client_filters_listings_of_old_brokers() -> None:
    def listed(request: Message, chosen: Schema) -> Message:
        groups = tuple(
            chosen.new("ListedGroup", group_id=name, protocol_type="consumer", group_state=state)
            for name, state in (("b", "Stable"), ("a", "Stable"), ("c", "Empty"))
        )
        return chosen.new("ListGroupsResponse", throttle_time=milliseconds(0), error_code=ErrorCode.none, groups=groups)

    with scripted({ApiKey.LIST_GROUPS: listed}, {ApiKey.LIST_GROUPS: (0, 4)}) as broker:
        found = groups_of(broker).listings(states=["stable"])
    assert [(one.id, one.state, one.type) for one in found] == [("a", "Stable", ""), ("b", "Stable", "")]


def commit_response(code: ErrorCode) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        partition = chosen.new("OffsetCommitResponsePartition", partition_index=0, error_code=code)
        topic = chosen.new("OffsetCommitResponseTopic", name="orders", partitions=(partition,))
        return chosen.new("OffsetCommitResponse", throttle_time=milliseconds(0), topics=(topic,))

    return handle


def delete_response(code: ErrorCode) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        results = tuple(
            chosen.new("DeletableGroupResult", group_id=name, error_code=code if name == "g" else ErrorCode.none)
            for name in request.groups_names
        )
        return chosen.new("DeleteGroupsResponse", throttle_time=milliseconds(0), results=results)

    return handle


def offset_delete_response(code: ErrorCode, of_partition: ErrorCode = ErrorCode.none) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        partition = chosen.new("OffsetDeleteResponsePartition", partition_index=0, error_code=of_partition)
        topic = chosen.new("OffsetDeleteResponseTopic", name="orders", partitions=(partition,))
        return chosen.new("OffsetDeleteResponse", error_code=code, throttle_time=milliseconds(0), topics=(topic,))

    return handle


def test_a_rejected_commit_is_not_retried() -> None:
    turns = [commit_response(ErrorCode.not_coordinator), commit_response(ErrorCode.unknown_member_id)]
    with scripted({ApiKey.OFFSET_COMMIT: in_turn(turns)}) as broker:
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            groups_of(broker).commit("g", {ORDERS: 3})
        commits = [request for request in broker.requests if hasattr(request, "generation_id_or_member_epoch")]
    assert len(commits) == 2
    assert (commits[0].generation_id_or_member_epoch, commits[0].member_id) == (-1, "")
    assert commits[0].topics[0].partitions[0].committed_offset == 3


def test_groups_that_are_not_deleted_are_reported() -> None:
    turns = [delete_response(ErrorCode.coordinator_load_in_progress), delete_response(ErrorCode.non_empty_group)]
    with scripted({ApiKey.DELETE_GROUPS: in_turn(turns)}) as broker:
        refused = groups_of(broker).delete(["g", "h"])
    assert {name: error.code for name, error in refused.items()} == {"g": ErrorCode.non_empty_group}


@pytest.mark.parametrize(
    ("handle", "check"),
    [
        (offset_delete_response(ErrorCode.none), lambda refused: refused == {}),
        (
            offset_delete_response(ErrorCode.none, ErrorCode.group_subscribed_to_topic),
            lambda refused: refused[ORDERS].code is ErrorCode.group_subscribed_to_topic,
        ),
    ],
)
def test_offsets_that_are_not_deleted_are_reported(handle: Handler, check: Callable[[Any], bool]) -> None:
    with scripted({ApiKey.OFFSET_DELETE: handle}) as broker:
        assert check(groups_of(broker).delete_offsets("g", [ORDERS]))


def test_deleting_offsets_of_an_unknown_group_is_an_error() -> None:
    with (
        scripted({ApiKey.OFFSET_DELETE: offset_delete_response(ErrorCode.group_id_not_found)}) as broker,
        pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"),
    ):
        groups_of(broker).delete_offsets("g", [ORDERS])
