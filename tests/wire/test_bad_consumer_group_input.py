"""Heartbeats of consumer groups that lie: Kafka's error, and a group that goes on as if nothing had been said.

Epochs from the future, members that nobody knows, regular expressions that no machine of finite size can run.
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
GROUP = "its-members-do-not-notice"
MEMBER = "neighbour"
STRANGE_ID = UUID("11111111-2222-4333-8444-555555555555")


@pytest.fixture(scope="session")
def coordinated(broker: NodeProcess) -> NodeProcess:
    """With a topic, and a coordinator that has loaded."""
    with RawConnection(broker.port) as connection:
        assert create_topic(connection, TOPIC, partitions=3) is ErrorCode.none
        until_coordinated(connection)
    return broker


@pytest.fixture
def connection(coordinated: NodeProcess) -> Iterator[RawConnection]:
    with RawConnection(coordinated.port) as opened:
        yield opened


def heartbeat(connection: RawConnection, group_id: str, **others: Any) -> Any:
    """Of somebody who joins, unless told otherwise."""
    fields = {
        "group_id": group_id,
        "member_id": MEMBER,
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
        **others,
    }
    return connection.ask(CONSUMER_GROUP_HEARTBEAT, 1, fields)


@pytest.fixture(autouse=True)
def neighbour(coordinated: NodeProcess) -> Iterator[int]:
    """The epoch of a member that has what it shall have; in the end it is as it was."""
    with RawConnection(coordinated.port) as own:
        owned: Any = []
        epoch = heartbeat(own, GROUP).member_epoch

        def is_stable() -> bool:
            nonlocal epoch, owned
            beat = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": owned}
            said = heartbeat(own, GROUP, **beat, member_epoch=epoch)
            assert said.error_code is ErrorCode.none
            epoch = said.member_epoch
            if said.assignment is not None:
                owned = [
                    {"topic_id": one.topic_id, "partitions": one.partitions} for one in said.assignment.topic_partitions
                ]
            return described(own) == ("Stable", epoch, 1)

        until(is_stable, 30, what="a member that has everything")
        before = epoch
        yield before
        assert is_stable()
        assert epoch == before
        assert heartbeat(own, GROUP, member_epoch=-1).error_code is ErrorCode.none


def described(connection: RawConnection) -> tuple[str, int, int]:
    """State, epoch of the first member, number of members."""
    (group,) = connection.ask(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [GROUP]}).groups
    return group.group_state, group.members[0].member_epoch, len(group.members)


MALFORMED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "an epoch that there is not": ({"member_epoch": -5}, ErrorCode.invalid_request),
    "no rebalance timeout": ({"rebalance_timeout": -1}, ErrorCode.invalid_request),
    "no topics": ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
    "nothing owned is said": ({"topic_partitions": None}, ErrorCode.invalid_request),
    "partitions owned at the start": (
        {"topic_partitions": [{"topic_id": STRANGE_ID, "partitions": [0, -1]}]},
        ErrorCode.invalid_request,
    ),
    "an empty group": ({"group_id": ""}, ErrorCode.invalid_request),
    "a blank group": ({"group_id": "  "}, ErrorCode.invalid_request),
    "an empty member": ({"member_id": ""}, ErrorCode.invalid_request),
    "an empty instance": ({"instance_id": ""}, ErrorCode.invalid_request),
    "an empty rack": ({"rack_id": ""}, ErrorCode.invalid_request),
    "an assignor that nobody knows": ({"server_assignor": "nobody"}, ErrorCode.unsupported_assignor),
    "a group that is not there": ({"member_epoch": 99}, ErrorCode.group_id_not_found),
    "leaves for a while without an instance": ({"member_epoch": -2}, ErrorCode.invalid_request),
}


@pytest.mark.parametrize(("others", "expected"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_heartbeats(
    connection: RawConnection, topic: str, others: dict[str, Any], expected: ErrorCode
) -> None:
    assert heartbeat(connection, **{"group_id": topic, **others}).error_code is expected
    (group,) = connection.ask(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [topic]}).groups
    assert group.error_code is ErrorCode.group_id_not_found


LIES: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "from the future": ({"member_epoch": 99}, ErrorCode.fenced_member_epoch),
    "a stranger": ({"member_id": "stranger", "member_epoch": 1}, ErrorCode.unknown_member_id),
    "a stranger leaves": ({"member_id": "stranger", "member_epoch": -1}, ErrorCode.unknown_member_id),
    "a strange instance leaves": (
        {"member_id": "stranger", "member_epoch": -2, "instance_id": "x"},
        ErrorCode.unknown_member_id,
    ),
    "a strange instance": (
        {"member_id": "stranger", "member_epoch": 1, "instance_id": "x"},
        ErrorCode.unknown_member_id,
    ),
}


@pytest.mark.parametrize(("others", "expected"), LIES.values(), ids=LIES)
def test_who_is_not_who_it_says(connection: RawConnection, others: dict[str, Any], expected: ErrorCode) -> None:
    assert heartbeat(connection, GROUP, **others).error_code is expected


def test_offsets_of_who_is_not_who_it_says(connection: RawConnection, neighbour: int) -> None:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    for member, epoch, expected in (
        (MEMBER, 99, ErrorCode.stale_member_epoch),
        ("stranger", neighbour, ErrorCode.unknown_member_id),
        ("", -1, ErrorCode.unknown_member_id),
    ):
        fields = {"group_id": GROUP, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}
        (answered,) = connection.ask(Api.OFFSET_COMMIT, 9, fields).topics
        assert answered.partitions[0].error_code is expected
    for member, epoch, expected in (
        (MEMBER, 99, ErrorCode.stale_member_epoch),
        ("stranger", neighbour, ErrorCode.unknown_member_id),
    ):
        asked = {"group_id": GROUP, "member_id": member, "member_epoch": epoch, "topics": None}
        (group,) = connection.ask(Api.OFFSET_FETCH, 9, {"groups": [asked]}).groups
        assert group.error_code is expected


def test_the_classic_protocol_of_who_speaks_the_other(connection: RawConnection, neighbour: int) -> None:
    who = {"group_id": GROUP, "member_id": MEMBER, "generation_id": neighbour}
    assert connection.ask(Api.HEARTBEAT, 4, who).error_code is ErrorCode.unknown_member_id
    assert connection.ask(Api.SYNC_GROUP, 5, who).error_code is ErrorCode.inconsistent_group_protocol


def test_descriptions_of_everything_and_nothing(connection: RawConnection) -> None:
    asked = {"group_ids": [GROUP, "no-such-group", "", GROUP]}
    found = connection.ask(CONSUMER_GROUP_DESCRIBE, 1, asked).groups
    assert sorted(one.error_code.name for one in found) == ["group_id_not_found", "invalid_group_id", "none", "none"]
    assert connection.ask(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": []}).groups == ()


REFUSED_EXPRESSIONS = {
    "open": "(",
    "a class that does not end": "[a-",
    "nothing to repeat": "*",
    "looks ahead": "(?=a)b",
    "refers back": r"(a)\1",
    "possessive": "a++",
    "repeats too often": "a{1001}",
    "a class of characters that there is not": r"\p{Foo}",
}
TAKEN_EXPRESSIONS = {
    "would explode if tried one way after the other": "(a+)+$",
    "explodes in other words": "((a|aa)*)*b",
    "thousands of ways": "|".join(f"topic-{number}" for number in range(2000)),
    "deep": "(" * 500 + "a" + ")" * 500,
    "empty": "",
    "a control character": "\x00",
}


@pytest.mark.parametrize("expression", REFUSED_EXPRESSIONS.values(), ids=REFUSED_EXPRESSIONS)
def test_expressions_that_are_none(connection: RawConnection, topic: str, expression: str) -> None:
    said = heartbeat(connection, topic, subscribed_topic_names=None, subscribed_topic_regex=expression)
    assert said.error_code is ErrorCode.invalid_regular_expression
    assert expression in said.error_message


@pytest.mark.parametrize("expression", TAKEN_EXPRESSIONS.values(), ids=TAKEN_EXPRESSIONS)
def test_expressions_that_explode(
    coordinated: NodeProcess, connection: RawConnection, topic: str, expression: str
) -> None:
    """They are run in a time that grows with the names only."""
    assert create_topic(connection, f"{topic}-{'a' * 200}") is ErrorCode.none

    def live() -> None:
        said = heartbeat(connection, topic, subscribed_topic_names=None, subscribed_topic_regex=expression)
        assert said.error_code is ErrorCode.none
        beat = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        for _ in range(5):
            said = heartbeat(connection, topic, **{**beat, "member_epoch": said.member_epoch})
            assert said.error_code is ErrorCode.none

    if coordinated.name == "odradek":
        with StallWatch(coordinated):
            live()
    else:
        live()
    assert heartbeat(connection, topic, member_epoch=-1).error_code is ErrorCode.none
