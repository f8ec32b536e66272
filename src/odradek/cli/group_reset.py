"""Plans `odradek group reset`: parses the target, finds the partitions, and prints the plan."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.offset_file import read_offsets
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.errors import UnknownPartition
from odradek.client.groups import Groups, Offsets
from odradek.client.offset_reset import (
    CannotReset,
    ResetPlan,
    ResetTarget,
    shift_by,
    to_current,
    to_each,
    to_earliest,
    to_latest,
    to_offset,
    to_time,
)
from odradek.client.partition_names import find_partitions
from odradek.text.errors import UserError
from odradek.text.output import print_table
from odradek.text.terminal import say
from odradek.text.times import parse_duration_ms, parse_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The partitions to reset: the named ones, or all with a committed offset of the group."""

    topics: Sequence[str]
    all_topics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    group: str
    is_new: bool
    committed: Offsets
    plan: ResetPlan

    @property
    def offsets(self) -> Offsets:
        return self.plan.offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """The options for the target offset, of which exactly one must be given."""

    earliest: bool
    latest: bool
    current: bool
    offset: int | None
    shift: int | None
    datetime: str | None
    duration: str | None
    file: Path | None

    def parse(self) -> ResetTarget | Path:
        """Return the given target, or the path of a file, which is read once the groups are known."""
        now_ms = int(time.time() * 1000)
        given: list[ResetTarget | Path] = []
        given += [to_earliest] if self.earliest else []
        given += [to_latest] if self.latest else []
        given += [to_current] if self.current else []
        given += [to_offset(self.offset)] if self.offset is not None else []
        given += [shift_by(self.shift)] if self.shift is not None else []
        if self.datetime is not None:
            given.append(to_time(parse_time_ms(self.datetime, "--to-datetime", zone=UTC)))
        if self.duration is not None:
            given.append(to_time(now_ms - parse_duration_ms(self.duration, "--by-duration")))
        given += [self.file] if self.file is not None else []
        if len(given) == 1:
            return given[0]
        options = (
            "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration"
            " or --from-file"
        )
        raise UserError(f"Specify the target offset with {'only ' if given else ''}one of {options}.")


def plan_resets(
    cluster: Cluster, group_ids: Sequence[str], target: ResetTarget | Path, scope: Scope
) -> list[GroupPlan]:
    """Plan the offsets to commit for each group. Raises UserError if a group has members."""
    described = Groups(cluster).describe(group_ids)
    for group_id, result in described.items():
        if isinstance(result, KafkaError):
            if result.code is not ErrorCode.group_id_not_found:
                raise result
        elif result.is_active:
            raise UserError(
                f"Group {group_id!r} is {result.state}: offsets can be reset only while a group has no members."
                f" Stop the members first (`odradek group describe {group_id}` lists them)."
            )
    from_file = read_offsets(target, group_ids) if isinstance(target, Path) else None
    committed = Groups(cluster).offsets(group_ids)
    named = find_partitions(cluster, scope.topics, "--topic") if scope.topics else []
    plans = []
    for group_id in group_ids:
        if from_file is not None:
            partitions, group_target = list(from_file[group_id]), to_each(from_file[group_id])
            _check_partitions(cluster, partitions)
        else:
            assert not isinstance(target, Path)
            partitions = _existing_partitions(cluster, committed[group_id]) if scope.all_topics else named
            group_target = target
        try:
            plan = group_target(Admin(cluster), partitions, committed[group_id])
        except CannotReset as error:
            raise UserError(
                f"Group {group_id!r}: {error}. Choose another target, or topics with committed offsets."
            ) from None
        is_new = isinstance(described[group_id], KafkaError)
        plans.append(GroupPlan(group=group_id, is_new=is_new, committed=committed[group_id], plan=plan))
    return plans


def print_plans(plans: Sequence[GroupPlan]) -> None:
    rows = [
        (
            *((one.group,) if len(plans) > 1 else ()),
            partition.topic,
            partition.partition,
            one.committed.get(partition),
            offset,
            _shift(one.committed.get(partition), offset),
        )
        for one in plans
        for partition, offset in sorted(one.offsets.items())
    ]
    if rows:
        columns = ("topic", "partition", "committed", "new", "shift")
        print_table(("group", *columns) if len(plans) > 1 else columns, rows)


def print_remarks(plans: Sequence[GroupPlan]) -> None:
    for one in plans:
        if one.is_new:
            say(f"Group {one.group!r} does not exist yet. The reset creates it.")
        for remark in one.plan.remarks:
            say(remark)


def plans_as_json(plans: Sequence[GroupPlan], *, executed: bool) -> list[dict[str, Any]]:
    return [
        {
            "group": one.group,
            "executed": executed,
            "offsets": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "before": one.committed.get(partition),
                    "after": offset,
                }
                for partition, offset in sorted(one.offsets.items())
            ],
        }
        for one in plans
    ]


def _check_partitions(cluster: Cluster, partitions: Sequence[TopicPartition]) -> None:
    layouts = cluster.retry("looking up topics", lambda: cluster.topics([one.topic for one in partitions]))
    for one in partitions:
        count = len(layouts[one.topic].partitions)
        if one.partition >= count:
            raise UnknownPartition(one.topic, one.partition, count)


def _existing_partitions(cluster: Cluster, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Leave out partitions of deleted topics: their committed offsets remain for a while."""
    layout = cluster.retry("looking up topics", lambda: cluster.layout({one.topic for one in committed}))
    known = {TopicPartition(topic.name, one.id) for topic in layout.topics.values() for one in topic.partitions}
    for topic in sorted({one.topic for one in committed if one not in known}):
        say(f"Topic {topic!r} or some of its partitions no longer exist. Their committed offsets are kept.")
    return sorted(known & committed.keys())


def _shift(before: int | None, after: int) -> str | None:
    return None if before is None else f"{after - before:+d}"
