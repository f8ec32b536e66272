"""The result of a group coordinator: records to append, and responses to send.

The runtime appends the records as one batch. Then, in this order: it passes them to `replay`, if `replays`; it sends
`responses` at once; it sends `responses_after_commit` when the batch is committed, or, without records, when all
earlier records are; and it passes `write_event` to `on_written` when the batch is committed, or the append fails. If
the append fails, nothing is replayed, and error responses replace `responses_after_commit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.core.groups.commands import Response
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.records import GroupRecord

Token = int
"""By which the runtime knows the request that a response belongs to."""


class AssignmentWritten(NamedTuple):
    """The leader's assignment, with which the group becomes stable, unless it has a newer generation by then."""

    group_id: str
    generation_id: int
    leader_id: str
    assignment: dict[str, bytes]


class StaticMemberWritten(NamedTuple):
    """A static member that has rejoined with a new member id, without a rebalance."""

    group_id: str
    instance_id: str
    old_member_id: str
    new_member_id: str
    former_leader: str
    join_version: int


class GroupConverted(NamedTuple):
    """A consumer group becomes a classic group, unless the write fails."""

    former: ConsumerGroup


WriteEvent = AssignmentWritten | StaticMemberWritten | GroupConverted


class Producer(NamedTuple):
    """The producer of the transaction that the records belong to."""

    id: int
    epoch: int


@dataclass(slots=True)
class CoordinatorResult:
    records: list[GroupRecord] = field(default_factory=list)
    responses: list[tuple[Token, Response]] = field(default_factory=list)
    responses_after_commit: list[tuple[Token, Response]] = field(default_factory=list)
    write_event: WriteEvent | None = None
    replays: bool = True
    """False for classic groups: they change at once, and only the loader replays their records."""
    is_atomic: bool = True
    """Whether the write fails if the records do not fit one batch; otherwise they may use several."""
    producer: Producer | None = None

    def write_classic_group(
        self, record: GroupRecord, then: WriteEvent | None = None, *, after: Sequence[GroupRecord] = ()
    ) -> None:
        """`after` are the records of the consumer group that this group replaces."""
        assert not self.records, "a result has one record of a classic group"
        self.records += (*after, record)
        self.write_event = then
        self.replays = False
