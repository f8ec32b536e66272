"""`odradek group reset` beyond its options: what is wished for, which partitions it means, and the plan on paper."""

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
    Wish,
    shift_by,
    to_current,
    to_each,
    to_earliest,
    to_latest,
    to_offset,
    to_time,
)
from odradek.client.partition_names import partitions_named
from odradek.text.errors import UserError
from odradek.text.output import print_table
from odradek.text.terminal import say
from odradek.text.times import parse_duration_ms, parse_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which partitions are meant: those that are named, or all of which the group has committed anything."""

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
class Wishes:
    """The options of which one has to be given."""

    earliest: bool
    latest: bool
    current: bool
    offset: int | None
    shift: int | None
    datetime: str | None
    duration: str | None
    file: Path | None

    def only(self) -> Wish | Path:
        """The one that is given; the path of a file, which is read once it is clear for which groups."""
        now_ms = int(time.time() * 1000)
        given: list[Wish | Path] = []
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
        raise UserError(f"where shall the group go on? give {'only ' if given else ''}one of {options}")


def plan_resets(cluster: Cluster, group_ids: Sequence[str], wish: Wish | Path, scope: Scope) -> list[GroupPlan]:
    """What would be committed for each group. Raises UserError if one of them has members."""
    described = Groups(cluster).describe(group_ids)
    for group_id, answer in described.items():
        if isinstance(answer, KafkaError):
            if answer.code is not ErrorCode.group_id_not_found:
                raise answer
        elif answer.is_active:
            raise UserError(
                f"group {group_id!r} is {answer.state}: offsets can be reset only while it has no members;"
                f" stop them first (`odradek group describe {group_id}` shows who they are)"
            )
    from_file = read_offsets(wish, group_ids) if isinstance(wish, Path) else None
    committed = Groups(cluster).offsets(group_ids)
    named = partitions_named(cluster, scope.topics, "--topic") if scope.topics else []
    plans = []
    for group_id in group_ids:
        if from_file is not None:
            partitions, its_wish = list(from_file[group_id]), to_each(from_file[group_id])
            _check_partitions(cluster, partitions)
        else:
            assert not isinstance(wish, Path)
            partitions, its_wish = (_still_there(cluster, committed[group_id]) if scope.all_topics else named), wish
        try:
            plan = its_wish(Admin(cluster), partitions, committed[group_id])
        except CannotReset as error:
            raise UserError(
                f"group {group_id!r}: {error}; choose another way, or name topics that it has read"
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
            _moved(one.committed.get(partition), offset),
        )
        for one in plans
        for partition, offset in sorted(one.offsets.items())
    ]
    if rows:
        columns = ("topic", "partition", "committed", "new", "moved by")
        print_table(("group", *columns) if len(plans) > 1 else columns, rows)


def say_remarks(plans: Sequence[GroupPlan]) -> None:
    for one in plans:
        if one.is_new:
            say(f"there is no group {one.group!r} yet: resetting it creates it")
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
    layouts = cluster.retry("looking for topics", lambda: cluster.topics([one.topic for one in partitions]))
    for one in partitions:
        count = len(layouts[one.topic].partitions)
        if one.partition >= count:
            raise UnknownPartition(one.topic, one.partition, count)


def _still_there(cluster: Cluster, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Offsets may outlive their topic for a while."""
    layout = cluster.retry("looking for topics", lambda: cluster.layout({one.topic for one in committed}))
    known = {TopicPartition(topic.name, one.id) for topic in layout.topics.values() for one in topic.partitions}
    for topic in sorted({one.topic for one in committed if one not in known}):
        say(f"topic {topic!r} is gone, or parts of it: what is committed of it stays")
    return sorted(known & committed.keys())


def _moved(before: int | None, after: int) -> str | None:
    return None if before is None else f"{after - before:+d}"
