"""Commands as clients of a group would send them, with everything that does not matter filled in."""

import struct
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitOffsets,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberProtocol,
    PartitionOffset,
    SyncAnswer,
    SyncGroup,
    TopicOffsets,
)
from tests.unit.core.groups.host import Host

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


def sync(answer: JoinAnswer, assignments: dict[str, bytes] | None = None, **changes: Any) -> SyncGroup:
    command = SyncGroup(
        GROUP,
        answer.generation_id,
        answer.member_id,
        None,
        answer.protocol_type,
        answer.protocol_name,
        list((assignments or {}).items()),
    )
    return command._replace(**changes)


def heartbeat(answer: JoinAnswer, **changes: Any) -> Heartbeat:
    return Heartbeat(GROUP, answer.generation_id, answer.member_id, None)._replace(**changes)


def leave(*member_ids: str) -> LeaveGroup:
    return LeaveGroup(GROUP, [LeavingMember(member_id, None) for member_id in member_ids])


def commit(answer: JoinAnswer | None, offset: int, **changes: Any) -> CommitOffsets:
    generation_id, member_id = (-1, "") if answer is None else (answer.generation_id, answer.member_id)
    topics = [TopicOffsets("a", [PartitionOffset(0, offset)])]
    return CommitOffsets(9, GROUP, generation_id, member_id, None, topics)._replace(**changes)


def given_id(host: Host, **changes: Any) -> str:
    answer = host.ask(join(**changes))
    assert isinstance(answer, JoinAnswer)
    assert answer.error is ErrorCode.member_id_required
    return answer.member_id


def joined(host: Host, token: int) -> JoinAnswer:
    answer = host.answers[token]
    assert isinstance(answer, JoinAnswer)
    assert answer.error is ErrorCode.none, answer
    return answer


def synced(host: Host, token: int) -> SyncAnswer:
    answer = host.answers[token]
    assert isinstance(answer, SyncAnswer)
    return answer


def stable_group(host: Host, count: int, **changes: Any) -> list[JoinAnswer]:
    """Members of the first generation, the leader first, each assigned its own id."""
    tokens = [host.send(join(given_id(host, **changes), **changes)) for _ in range(count)]
    host.commit()
    host.pass_time(2 * host.settings.initial_rebalance_delay_ms)
    answers = [joined(host, token) for token in tokens]
    answers.sort(key=lambda answer: answer.member_id != answer.leader)
    assignments = {answer.member_id: answer.member_id.encode() for answer in answers}
    for answer in reversed(answers):
        host.send(sync(answer, assignments if answer.member_id == answer.leader else None))
    host.commit()
    return answers
