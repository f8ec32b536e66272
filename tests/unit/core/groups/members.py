"""Commands as clients of a group would send them, with everything that does not matter filled in."""

import struct
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitOffsets,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    PartitionOffset,
    SyncGroup,
    SyncResponse,
    TopicOffsets,
)
from tests.unit.core.groups.coordinator_harness import CoordinatorHarness

GROUP = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def protocols(*names: str, topics: tuple[str, ...] = ("a",)) -> tuple[MemberProtocol, ...]:
    return tuple(MemberProtocol(name, subscription(*topics)) for name in names or ("range",))


def join(member_id: str = "", **changes: Any) -> JoinGroup:
    command = JoinGroup(
        9, GROUP, member_id, None, "client", "/127.0.0.1", SESSION_MS, REBALANCE_MS, "consumer", protocols()
    )
    return command._replace(**changes)


def sync(response: JoinResponse, assignments: dict[str, bytes] | None = None, **changes: Any) -> SyncGroup:
    command = SyncGroup(
        GROUP,
        response.generation_id,
        response.member_id,
        None,
        response.protocol_type,
        response.protocol_name,
        list((assignments or {}).items()),
    )
    return command._replace(**changes)


def heartbeat(response: JoinResponse, **changes: Any) -> Heartbeat:
    return Heartbeat(GROUP, response.generation_id, response.member_id, None)._replace(**changes)


def leave(*member_ids: str) -> LeaveGroup:
    return LeaveGroup(GROUP, [LeavingMember(member_id, None) for member_id in member_ids])


def commit(response: JoinResponse | None, offset: int, **changes: Any) -> CommitOffsets:
    generation_id, member_id = (-1, "") if response is None else (response.generation_id, response.member_id)
    topics = [TopicOffsets("a", [PartitionOffset(0, offset)])]
    return CommitOffsets(9, GROUP, generation_id, member_id, None, topics)._replace(**changes)


def given_id(harness: CoordinatorHarness, **changes: Any) -> str:
    response = harness.execute(join(**changes))
    assert isinstance(response, JoinResponse)
    assert response.error is ErrorCode.member_id_required
    return response.member_id


def joined(harness: CoordinatorHarness, token: int) -> JoinResponse:
    response = harness.responses[token]
    assert isinstance(response, JoinResponse)
    assert response.error is ErrorCode.none, response
    return response


def synced(harness: CoordinatorHarness, token: int) -> SyncResponse:
    response = harness.responses[token]
    assert isinstance(response, SyncResponse)
    return response


def stable_group(harness: CoordinatorHarness, count: int, **changes: Any) -> list[JoinResponse]:
    """Members of the first generation, the leader first, each assigned its own id."""
    tokens = [harness.send(join(given_id(harness, **changes), **changes)) for _ in range(count)]
    harness.commit()
    harness.pass_time(2 * harness.settings.initial_rebalance_delay_ms)
    responses = [joined(harness, token) for token in tokens]
    responses.sort(key=lambda response: response.member_id != response.leader)
    assignments = {response.member_id: response.member_id.encode() for response in responses}
    for response in reversed(responses):
        harness.send(sync(response, assignments if response.member_id == response.leader else None))
    harness.commit()
    return responses
