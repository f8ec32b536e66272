"""Resets the committed offsets of a group, or deletes the group."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.groups import Groups, Offsets
from odradek.client.offset_reset import (
    CannotReset,
    ResetPlan,
    ResetTarget,
    shift_by,
    to_earliest,
    to_latest,
    to_offset,
    to_time,
)
from odradek.console.actions.action import Preview, Refused
from odradek.console.actions.form_values import point_in_time, whole_number
from odradek.console.readings.table import Column, Row, format_count, inert

WISHES = {
    "earliest": "Earliest",
    "latest": "Latest",
    "offset": "Specific offset",
    "shift": "Shift by a number of records (-10 moves back)",
    "time": "Point in time",
}

_COLUMNS = (
    Column("partition", "Partition"),
    Column("committed", "Committed", is_number=True),
    Column("new", "New", is_number=True),
    Column("moved", "Moved by", is_number=True),
)


@dataclass(slots=True, kw_only=True)
class ResetOffsets:
    """Carries out exactly the plan that the preview showed."""

    group: str
    topics: Sequence[str]
    """Empty means every topic for which the group has committed offsets."""
    offset_target: ResetTarget
    described: str
    """The offset target in words."""
    name: str = "Reset offsets"
    _plan: ResetPlan | None = field(default=None, init=False)

    @property
    def target(self) -> str:
        return f"group {self.group}"

    def details(self) -> dict[str, object]:
        offsets = self._plan.offsets if self._plan else {}
        return {"to": self.described, "offsets": {str(one): offset for one, offset in sorted(offsets.items())}}

    def preview(self, cluster: Cluster) -> Preview:
        _refuse_members(cluster, self.group, "Offsets can be reset only while the group has no members")
        committed = Groups(cluster).offsets([self.group])[self.group]
        partitions = self._partitions(cluster, committed)
        try:
            self._plan = self.offset_target(Admin(cluster), partitions, committed)
        except CannotReset as error:
            raise Refused(f"{error}. Choose another target, or topics with committed offsets.") from None
        rows = [_row(one, committed.get(one), offset) for one, offset in sorted(self._plan.offsets.items())]
        return Preview(
            sentence=f"Group {inert(self.group)} resumes {self.described} in {format_count(len(rows), 'partition')}.",
            columns=_COLUMNS,
            rows=rows,
            warnings=[inert(remark) for remark in self._plan.remarks],
        )

    def carry_out(self, cluster: Cluster) -> str:
        if self._plan is None:
            raise Refused("Open the preview first: the console applies exactly what the preview shows.")
        Groups(cluster).commit(self.group, self._plan.offsets)
        count = format_count(len(self._plan.offsets), "partition")
        return f"Group {inert(self.group)} resumes {self.described} in {count}."

    def _partitions(self, cluster: Cluster, committed: Offsets) -> list[TopicPartition]:
        names = tuple(self.topics) or tuple(sorted({one.topic for one in committed}))
        layout = cluster.retry("looking up topics", lambda: cluster.layout(names))
        for name in self.topics:
            if name not in layout.topics:
                raise Refused(f"Topic {inert(name)!r} does not exist. See the list of topics.")
        there = {TopicPartition(name, one.id) for name, topic in layout.topics.items() for one in topic.partitions}
        found = there if self.topics else there & committed.keys()
        if not found:
            raise Refused("The group has no committed offsets for an existing topic. Enter the topics.")
        return sorted(found)


def reset_of(group: str, where: str, at: str, topics: str) -> ResetOffsets:
    """Builds the action from form input. Raises Refused."""
    offset_target: ResetTarget
    match where:
        case "latest":
            offset_target, described = to_latest, "at the end"
        case "offset":
            offset = whole_number(at, "The offset", most=2**63 - 1)
            offset_target, described = to_offset(offset), f"at offset {offset:,}"
        case "shift":
            count = whole_number(at, "The number of records", least=-(2**62), most=2**62)
            offset_target, described = shift_by(count), f"{count:+,} records from the committed offset"
        case "time":
            offset_target, described = to_time(point_in_time(at, "The time")), f"at {inert(at.strip())}"
        case _:
            offset_target, described = to_earliest, "at the beginning"
    names = [name.strip() for name in topics.split(",") if name.strip()]
    return ResetOffsets(group=group, topics=names, offset_target=offset_target, described=described)


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group: str
    name: str = "Delete group"

    @property
    def target(self) -> str:
        return f"group {self.group}"

    def details(self) -> dict[str, object]:
        return {}

    def preview(self, cluster: Cluster) -> Preview:
        _refuse_members(cluster, self.group, "A group can be deleted only while it has no members")
        committed = Groups(cluster).offsets([self.group])[self.group]
        return Preview(
            sentence=f"Deletes group {inert(self.group)} and its committed offsets of"
            f" {format_count(len(committed), 'partition')}: its consumers start from auto.offset.reset."
            " This cannot be undone.",
            typed=inert(self.group),
        )

    def carry_out(self, cluster: Cluster) -> str:
        for error in Groups(cluster).delete([self.group]).values():
            raise error
        return f"Group {inert(self.group)} is deleted."


def _refuse_members(cluster: Cluster, group: str, why: str) -> None:
    description = Groups(cluster).describe([group])[group]
    if isinstance(description, KafkaError):
        if description.code is ErrorCode.group_id_not_found:
            raise Refused(f"Group {inert(group)!r} no longer exists. See the list of groups.")
        raise description
    if description.is_active:
        clients = ", ".join(sorted({inert(member.client_id) for member in description.members})[:5])
        raise Refused(
            f"Group {inert(group)} is {description.state} with {format_count(len(description.members), 'member')}"
            f" ({clients}). {why}: stop them first."
        )


def _row(partition: TopicPartition, committed: int | None, offset: int) -> Row:
    return Row(
        str(partition),
        {
            "partition": inert(str(partition)),
            "committed": "nothing" if committed is None else f"{committed:,}",
            "new": f"{offset:,}",
            "moved": "" if committed is None else f"{offset - committed:+,}",
        },
    )
