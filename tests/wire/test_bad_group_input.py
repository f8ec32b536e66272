"""Invalid members and oversized group requests: Kafka's error, no lost state, and no effect on other groups.

`tests/kafka/side_by_side` compares the errors of every version; these tests cover sizes, large numbers of elements,
and a neighbouring group that must not change.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import NodeProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import codes, create_topic, until_coordinated
from tests.wire.stall_watch import StallWatch

TOPIC = "bad-group-input"
SUBSCRIPTION = struct.pack(">hii", 0, 0, -1)
SESSION_MS = 45_000
TOO_LARGE = b"x" * (2 << 20)
MANY = 15_000

Fields = dict[str, Any]


@pytest.fixture(scope="session")
def coordinated(broker: NodeProcess) -> NodeProcess:
    """A broker with a topic and a loaded coordinator."""
    with RawConnection(broker.port) as connection:
        assert create_topic(connection, TOPIC, partitions=3) is ErrorCode.none
        until_coordinated(connection)
    return broker


@pytest.fixture
def connection(coordinated: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(coordinated.port) as opened:
        yield opened


@pytest.fixture(autouse=True)
def neighbour(coordinated: NodeProcess, topic: str) -> Iterator[None]:
    """A member of a stable group with a committed offset, both unchanged at the end."""
    group_id = f"{topic}-neighbour"
    with RawConnection(coordinated.port) as own:
        joined = join_new_member(own, group_id)
        member = {"group_id": group_id, "member_id": joined.member_id, "generation_id": joined.generation_id}
        share = {"member_id": joined.member_id, "assignment": b"share"}
        assert sync(own, member, [share]).error_code is ErrorCode.none
        committing = {**commit_of(group_id, {0: 17}), **member, "generation_id_or_member_epoch": joined.generation_id}
        assert codes(own.request(Api.OFFSET_COMMIT, 9, committing)) == {ErrorCode.none: 1}
        yield
        assert own.request(Api.HEARTBEAT, 4, member).error_code is ErrorCode.none
        (state,) = own.request(Api.DESCRIBE_GROUPS, 6, {"groups": [group_id]}).groups
        assert (state.group_state, [member.member_assignment for member in state.members]) == ("Stable", [b"share"])
        assert committed(own, group_id) == {0: 17}
        own.request(Api.LEAVE_GROUP, 5, {"group_id": group_id, "members": [{"member_id": joined.member_id}]})


def join_fields(group_id: str, member_id: str = "", **others: Any) -> Fields:
    return {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout": SESSION_MS,
        "rebalance_timeout": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        **others,
    }


def join_new_member(connection: RawConnection, group_id: str, **others: Any) -> Any:
    given = connection.request(Api.JOIN_GROUP, 9, join_fields(group_id, **others))
    assert given.error_code is ErrorCode.member_id_required
    return connection.request(Api.JOIN_GROUP, 9, join_fields(group_id, given.member_id, **others))


def sync(connection: RawConnection, member: Mapping[str, Any], assignments: Sequence[Fields]) -> Any:
    fields = {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
    return connection.request(Api.SYNC_GROUP, 5, {**member, **fields})


def commit_of(group_id: str, offsets: Mapping[int, int], metadata: str = "") -> Fields:
    partitions = [
        {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata}
        for number, offset in offsets.items()
    ]
    topics = [{"name": TOPIC, "partitions": partitions}]
    return {"group_id": group_id, "member_id": "", "generation_id_or_member_epoch": -1, "topics": topics}


def committed(connection: RawConnection, group_id: str) -> dict[int, int]:
    query = {"groups": [{"group_id": group_id, "topics": None}]}
    (group,) = connection.request(Api.OFFSET_FETCH, 9, query).groups
    return {one.partition_index: one.committed_offset for topic in group.topics for one in topic.partitions}


def state_of(connection: RawConnection, group_id: str) -> tuple[str, int]:
    (found,) = connection.request(Api.DESCRIBE_GROUPS, 6, {"groups": [group_id]}).groups
    return found.group_state, len(found.members)


def test_assignment_too_large_for_a_record_is_rejected(connection: RawConnection, topic: str) -> None:
    joined = join_new_member(connection, topic)
    member = {"group_id": topic, "member_id": joined.member_id, "generation_id": joined.generation_id}
    refused = sync(connection, member, [{"member_id": joined.member_id, "assignment": TOO_LARGE}])
    assert refused.error_code is ErrorCode.unknown_server_error
    # The group continues once the assignment is small enough.
    again = connection.request(Api.JOIN_GROUP, 9, join_fields(topic, joined.member_id))
    assert again.error_code is ErrorCode.none
    member["generation_id"] = again.generation_id
    assert sync(connection, member, [{"member_id": joined.member_id, "assignment": b"less"}]).assignment == b"less"
    assert state_of(connection, topic) == ("Stable", 1)


def test_subscription_too_large_for_a_record_is_rejected(connection: RawConnection, topic: str) -> None:
    joined = join_new_member(connection, topic, protocols=[{"name": "range", "metadata": SUBSCRIPTION + TOO_LARGE}])
    assert joined.error_code is ErrorCode.none
    member = {"group_id": topic, "member_id": joined.member_id, "generation_id": joined.generation_id}
    refused = sync(connection, member, [{"member_id": joined.member_id, "assignment": b"share"}])
    assert refused.error_code is ErrorCode.unknown_server_error


def test_offset_metadata_too_large_for_a_batch_is_rejected(connection: RawConnection, topic: str) -> None:
    assert codes(connection.request(Api.OFFSET_COMMIT, 9, commit_of(topic, {0: 3}))) == {ErrorCode.none: 1}
    fields = commit_of(topic, {0: 4}, "x" * 4000)
    fields["topics"][0]["partitions"] *= 400
    assert codes(connection.request(Api.OFFSET_COMMIT, 9, fields)) == {ErrorCode.unknown_server_error: 400}
    assert committed(connection, topic) == {0: 3}
    assert codes(connection.request(Api.OFFSET_COMMIT, 9, commit_of(topic, {0: 5}, "x" * 4096))) == {ErrorCode.none: 1}
    too_long = connection.request(Api.OFFSET_COMMIT, 9, commit_of(topic, {0: 6, 1: 6}, "x" * 4097))
    assert codes(too_long) == {ErrorCode.offset_metadata_too_large: 2}
    assert committed(connection, topic) == {0: 5}


def test_very_long_group_and_member_ids_are_accepted(connection: RawConnection) -> None:
    group_id = "g" * 30_000
    joined = join_new_member(connection, group_id, group_instance_id=None)
    assert joined.error_code is ErrorCode.none
    member = {"group_id": group_id, "member_id": joined.member_id, "generation_id": joined.generation_id}
    assert sync(connection, member, []).error_code is ErrorCode.none
    assert codes(connection.request(Api.HEARTBEAT, 4, {**member, "member_id": "m" * 30_000})) == {
        ErrorCode.unknown_member_id: 1
    }
    connection.request(Api.LEAVE_GROUP, 5, {"group_id": group_id, "members": [{"member_id": joined.member_id}]})
    assert codes(connection.request(Api.DELETE_GROUPS, 2, {"groups_names": [group_id]})) == {ErrorCode.none: 1}


@pytest.mark.parametrize("metadata", [b"", b"\0"], ids=["empty", "one byte"])
def test_empty_subscription_metadata_is_accepted(connection: RawConnection, topic: str, metadata: bytes) -> None:
    """Only the members have to understand the metadata."""
    joined = join_new_member(connection, topic, protocols=[{"name": "range", "metadata": metadata}])
    member = {"group_id": topic, "member_id": joined.member_id, "generation_id": joined.generation_id}
    assert sync(connection, member, [{"member_id": joined.member_id, "assignment": metadata}]).assignment == metadata


MALFORMED_SUBSCRIPTIONS = {
    "a count beyond everything": struct.pack(">hi", 0, 2**31 - 1),
    "a negative count": struct.pack(">hi", 0, -5),
    "a negative version": struct.pack(">hi", -1, 1),
    "a name beyond the end": struct.pack(">hih", 0, 1, 30_000) + b"short",
    "no text": bytes(range(200)),
}


@pytest.mark.parametrize("metadata", MALFORMED_SUBSCRIPTIONS.values(), ids=MALFORMED_SUBSCRIPTIONS)
@pytest.mark.parametrize("broker", ["odradek"], indirect=True, scope="session")
def test_malformed_subscription_metadata_is_accepted(connection: RawConnection, topic: str, metadata: bytes) -> None:
    """Kafka never responds to these; Odradek treats them as empty subscriptions."""
    joined = join_new_member(connection, topic, protocols=[{"name": "range", "metadata": metadata}])
    assert joined.error_code is ErrorCode.none
    member = {"group_id": topic, "member_id": joined.member_id, "generation_id": joined.generation_id}
    assert sync(connection, member, []).error_code is ErrorCode.none
    connection.request(Api.LEAVE_GROUP, 5, {"group_id": topic, "members": [{"member_id": joined.member_id}]})
    assert codes(connection.request(Api.DELETE_GROUPS, 2, {"groups_names": [topic]})) == {ErrorCode.none: 1}


NAMES = [f"crowd-{number}" for number in range(MANY)]
LARGE_REQUESTS: dict[str, tuple[Api, int, Fields, dict[ErrorCode, int]]] = {
    "members leave": (
        Api.LEAVE_GROUP,
        5,
        {"group_id": "crowd", "members": [{"member_id": name} for name in NAMES]},
        {ErrorCode.none: 1, ErrorCode.unknown_member_id: MANY},
    ),
    "groups are deleted": (Api.DELETE_GROUPS, 2, {"groups_names": NAMES}, {ErrorCode.group_id_not_found: MANY}),
    "groups are described": (Api.DESCRIBE_GROUPS, 6, {"groups": NAMES}, {ErrorCode.group_id_not_found: MANY}),
    "coordinators of groups": (Api.FIND_COORDINATOR, 6, {"coordinator_keys": NAMES}, {ErrorCode.none: MANY}),
    "offsets of groups": (
        Api.OFFSET_FETCH,
        9,
        {"groups": [{"group_id": name, "topics": None} for name in NAMES[:9000]]},
        {ErrorCode.none: 9000},
    ),
    "offsets of an unknown topic": (
        Api.OFFSET_COMMIT,
        9,
        {
            "group_id": "crowd",
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": "no-such-topic", "partitions": [{"partition_index": one} for one in range(MANY)]}],
        },
        {ErrorCode.unknown_topic_or_partition: MANY},
    ),
    "states and types": (
        Api.LIST_GROUPS,
        5,
        {"states_filter": ["x" * 500] * 2000, "types_filter": ["y"] * 2000},
        {ErrorCode.none: 1},
    ),
    "protocols of one member": (
        Api.JOIN_GROUP,
        9,
        join_fields("crowd", protocols=[{"name": name, "metadata": SUBSCRIPTION} for name in NAMES[:5000]]),
        {ErrorCode.member_id_required: 1},
    ),
}


@pytest.mark.parametrize(("api", "version", "fields", "expected"), LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
@pytest.mark.parametrize("broker", ["odradek"], indirect=True, scope="session")
def test_large_requests_do_not_stall(
    coordinated: NodeProcess,
    connection: RawConnection,
    api: Api,
    version: int,
    fields: Fields,
    expected: dict[ErrorCode, int],
) -> None:
    """Kafka gives the same responses, but may need a minute for them."""
    with StallWatch(coordinated):
        assert codes(connection.request(api, version, fields)) == expected


def test_flood_of_members_that_never_rejoin_does_not_stall(
    coordinated: NodeProcess, connection: RawConnection, topic: str
) -> None:
    """Each gets a member ID, and the coordinator keeps nothing else of it."""
    for number in range(2000):
        connection.send(Api.JOIN_GROUP, 9, join_fields(f"{topic}-{number % 50}"))
    for _ in range(2000):
        connection.receive()
    if coordinated.name == "odradek":
        with StallWatch(coordinated):
            assert join_new_member(connection, topic).error_code is ErrorCode.none
