"""Invalid heartbeats of consumer groups: Kafka's error, and no effect on the group.

They contain epochs from the future, unknown members, or regular expressions of exponential cost.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.apis import Api
from tests.node_process import NodeProcess
from tests.raw_wire import RawConnection
from tests.wire.plain_requests import create_topic, until, until_coordinated
from tests.wire.stall_watch import StallWatch

CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
TOPIC = "bad-consumer-group-input"
GROUP = "undisturbed-group"
MEMBER = "neighbour"
UNKNOWN_ID = UUID("11111111-2222-4333-8444-555555555555")


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


def heartbeat(connection: RawConnection, group_id: str, **others: Any) -> Any:
    """Sends the heartbeat of a joining member, with the fields in `others` replaced."""
    fields = {
        "group_id": group_id,
        "member_id": MEMBER,
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
        **others,
    }
    return connection.request(CONSUMER_GROUP_HEARTBEAT, 1, fields)


@pytest.fixture(autouse=True)
def neighbour(coordinated: NodeProcess) -> Iterator[int]:
    """The epoch of a stable member, which is unchanged at the end."""
    with RawConnection(coordinated.port) as own:
        owned: Any = []
        epoch = heartbeat(own, GROUP).member_epoch

        def is_stable() -> bool:
            nonlocal epoch, owned
            beat = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": owned}
            response = heartbeat(own, GROUP, **beat, member_epoch=epoch)
            assert response.error_code is ErrorCode.none
            epoch = response.member_epoch
            if response.assignment is not None:
                owned = [
                    {"topic_id": one.topic_id, "partitions": one.partitions}
                    for one in response.assignment.topic_partitions
                ]
            return describe_group(own) == ("Stable", epoch, 1)

        until(is_stable, 30, what="a member with all partitions")
        before = epoch
        yield before
        assert is_stable()
        assert epoch == before
        assert heartbeat(own, GROUP, member_epoch=-1).error_code is ErrorCode.none


def describe_group(connection: RawConnection) -> tuple[str, int, int]:
    """State, epoch of the first member, number of members."""
    (group,) = connection.request(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [GROUP]}).groups
    return group.group_state, group.members[0].member_epoch, len(group.members)


MALFORMED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "an invalid epoch": ({"member_epoch": -5}, ErrorCode.invalid_request),
    "no rebalance timeout": ({"rebalance_timeout": -1}, ErrorCode.invalid_request),
    "no topics": ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
    "no list of owned partitions": ({"topic_partitions": None}, ErrorCode.invalid_request),
    "partitions owned at the start": (
        {"topic_partitions": [{"topic_id": UNKNOWN_ID, "partitions": [0, -1]}]},
        ErrorCode.invalid_request,
    ),
    "an empty group": ({"group_id": ""}, ErrorCode.invalid_request),
    "a blank group": ({"group_id": "  "}, ErrorCode.invalid_request),
    "an empty member": ({"member_id": ""}, ErrorCode.invalid_request),
    "an empty instance": ({"instance_id": ""}, ErrorCode.invalid_request),
    "an empty rack": ({"rack_id": ""}, ErrorCode.invalid_request),
    "an unknown assignor": ({"server_assignor": "unknown"}, ErrorCode.unsupported_assignor),
    "an unknown group": ({"member_epoch": 99}, ErrorCode.group_id_not_found),
    "a temporary leave without an instance": ({"member_epoch": -2}, ErrorCode.invalid_request),
}


@pytest.mark.parametrize(("others", "expected"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_heartbeats(
    connection: RawConnection, topic: str, others: dict[str, Any], expected: ErrorCode
) -> None:
    assert heartbeat(connection, **{"group_id": topic, **others}).error_code is expected
    (group,) = connection.request(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [topic]}).groups
    assert group.error_code is ErrorCode.group_id_not_found


WRONG_MEMBERS: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "an epoch from the future": ({"member_epoch": 99}, ErrorCode.fenced_member_epoch),
    "an unknown member": ({"member_id": "unknown", "member_epoch": 1}, ErrorCode.unknown_member_id),
    "an unknown member leaves": ({"member_id": "unknown", "member_epoch": -1}, ErrorCode.unknown_member_id),
    "an unknown instance leaves": (
        {"member_id": "unknown", "member_epoch": -2, "instance_id": "x"},
        ErrorCode.unknown_member_id,
    ),
    "an unknown instance": (
        {"member_id": "unknown", "member_epoch": 1, "instance_id": "x"},
        ErrorCode.unknown_member_id,
    ),
}


@pytest.mark.parametrize(("others", "expected"), WRONG_MEMBERS.values(), ids=WRONG_MEMBERS)
def test_heartbeat_of_a_wrong_member_or_epoch_is_rejected(
    connection: RawConnection, others: dict[str, Any], expected: ErrorCode
) -> None:
    assert heartbeat(connection, GROUP, **others).error_code is expected


def test_offset_requests_of_a_wrong_member_or_epoch_are_rejected(connection: RawConnection, neighbour: int) -> None:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    for member, epoch, expected in (
        (MEMBER, 99, ErrorCode.stale_member_epoch),
        ("unknown", neighbour, ErrorCode.unknown_member_id),
        ("", -1, ErrorCode.unknown_member_id),
    ):
        fields = {"group_id": GROUP, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}
        (committed,) = connection.request(Api.OFFSET_COMMIT, 9, fields).topics
        assert committed.partitions[0].error_code is expected
    for member, epoch, expected in (
        (MEMBER, 99, ErrorCode.stale_member_epoch),
        ("unknown", neighbour, ErrorCode.unknown_member_id),
    ):
        query = {"group_id": GROUP, "member_id": member, "member_epoch": epoch, "topics": None}
        (group,) = connection.request(Api.OFFSET_FETCH, 9, {"groups": [query]}).groups
        assert group.error_code is expected


def test_classic_requests_of_a_consumer_protocol_member_are_rejected(connection: RawConnection, neighbour: int) -> None:
    classic_member = {"group_id": GROUP, "member_id": MEMBER, "generation_id": neighbour}
    assert connection.request(Api.HEARTBEAT, 4, classic_member).error_code is ErrorCode.unknown_member_id
    assert connection.request(Api.SYNC_GROUP, 5, classic_member).error_code is ErrorCode.inconsistent_group_protocol


def test_describing_known_unknown_and_no_groups(connection: RawConnection) -> None:
    query = {"group_ids": [GROUP, "no-such-group", "", GROUP]}
    found = connection.request(CONSUMER_GROUP_DESCRIBE, 1, query).groups
    assert sorted(one.error_code.name for one in found) == ["group_id_not_found", "invalid_group_id", "none", "none"]
    assert connection.request(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": []}).groups == ()


REFUSED_EXPRESSIONS = {
    "an open group": "(",
    "an open class": "[a-",
    "nothing to repeat": "*",
    "lookahead": "(?=a)b",
    "back reference": r"(a)\1",
    "possessive": "a++",
    "too many repetitions": "a{1001}",
    "an unknown character class": r"\p{Foo}",
}
ACCEPTED_EXPRESSIONS = {
    "exponential with backtracking": "(a+)+$",
    "exponential alternatives": "((a|aa)*)*b",
    "thousands of alternatives": "|".join(f"topic-{number}" for number in range(2000)),
    "deep": "(" * 500 + "a" + ")" * 500,
    "empty": "",
    "a control character": "\x00",
}


@pytest.mark.parametrize("expression", REFUSED_EXPRESSIONS.values(), ids=REFUSED_EXPRESSIONS)
def test_invalid_regular_expressions_are_rejected(connection: RawConnection, topic: str, expression: str) -> None:
    response = heartbeat(connection, topic, subscribed_topic_names=None, subscribed_topic_regex=expression)
    assert response.error_code is ErrorCode.invalid_regular_expression
    assert expression in response.error_message


@pytest.mark.parametrize("expression", ACCEPTED_EXPRESSIONS.values(), ids=ACCEPTED_EXPRESSIONS)
def test_expensive_regexes_do_not_stall(
    coordinated: NodeProcess, connection: RawConnection, topic: str, expression: str
) -> None:
    """The matching time grows only with the topic names."""
    assert create_topic(connection, f"{topic}-{'a' * 200}") is ErrorCode.none

    def join_and_heartbeat() -> None:
        response = heartbeat(connection, topic, subscribed_topic_names=None, subscribed_topic_regex=expression)
        assert response.error_code is ErrorCode.none
        beat = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        for _ in range(5):
            response = heartbeat(connection, topic, **{**beat, "member_epoch": response.member_epoch})
            assert response.error_code is ErrorCode.none

    if coordinated.name == "odradek":
        with StallWatch(coordinated):
            join_and_heartbeat()
    else:
        join_and_heartbeat()
    assert heartbeat(connection, topic, member_epoch=-1).error_code is ErrorCode.none
