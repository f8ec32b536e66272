"""What a step of the coordinator leaves its host to do.

The host appends the records as one batch to the leader of the partition. Then, in this order: it gives them back
through `replay`, if they are to be; sends `answers` at once, refusals among them; keeps `answers_when_committed` until
the batch is committed, or, where there is none, everything appended before; and reports `on_written` to `written` as
soon as the batch is committed, or at the failure of the append. If the append fails, nothing is replayed, and the
answers that wait are refusals instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.core.groups.commands import Answer
from odradek.core.groups.consumer_group import ConsumerGroup
from odradek.core.groups.records import GroupRecord

Token = int
"""By which the host knows whom an answer is for; the coordinator only keeps it."""


class AssignmentWritten(NamedTuple):
    """The leader's assignment: the generation is stable with it, unless it has passed meanwhile."""

    group_id: str
    generation_id: int
    leader_id: str
    assignment: dict[str, bytes]


class StaticMemberWritten(NamedTuple):
    """A static member that came back under a new id, without a rebalance."""

    group_id: str
    instance_id: str
    old_member_id: str
    new_member_id: str
    former_leader: str
    join_version: int


class GroupConverted(NamedTuple):
    """A consumer group has become a classic one; if that could not be written, it has not."""

    former: ConsumerGroup


Written = AssignmentWritten | StaticMemberWritten | GroupConverted


class Producer(NamedTuple):
    """The transaction that records belong to."""

    id: int
    epoch: int


@dataclass(slots=True)
class Outcome:
    records: list[GroupRecord] = field(default_factory=list)
    answers: list[tuple[Token, Answer]] = field(default_factory=list)
    answers_when_committed: list[tuple[Token, Answer]] = field(default_factory=list)
    on_written: Written | None = None
    replays: bool = True
    """Classic groups change at once, not by their record, which is for whoever loads it later."""
    is_atomic: bool = True
    """All records fit one batch, or the step is refused; otherwise they may be spread over several."""
    producer: Producer | None = None

    def write_classic_group(
        self, record: GroupRecord, then: Written | None = None, *, after: Sequence[GroupRecord] = ()
    ) -> None:
        """`after` what was written of a group of another kind, in whose place it comes."""
        assert not self.records, "a step writes one record of a classic group"
        self.records += (*after, record)
        self.on_written = then
        self.replays = False
