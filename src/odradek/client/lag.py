"""Measures the lag of groups, how fast it changes, and when they will have caught up, from one or two samples.

A group reads the partitions with a committed offset and the assigned ones. Its speed is visible only in its commits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from odradek.base.ids import TopicPartition
from odradek.client.admin import LATEST, Admin
from odradek.client.cluster import Cluster
from odradek.client.groups import GroupDescription, GroupMember, Groups, Offsets


class Trend(StrEnum):
    CAUGHT_UP = "caught up"
    SHRINKS = "shrinks"
    STANDS = "stands still"
    GROWS = "grows"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSample:
    """The committed offsets and end offsets of all groups at about the same time."""

    at_s: float
    committed: Mapping[str, Offsets]
    ends: Offsets
    """The end offsets of partitions with a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Records per second."""

    consumed: float
    produced: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of one partition, or of several together."""

    records: int | None
    """None if there is no committed offset or the end offset is unknown."""
    rates: Rates | None
    """None unless there are two samples."""

    @property
    def trend(self) -> Trend | None:
        if self.records == 0:
            return Trend.CAUGHT_UP
        if self.records is None or self.rates is None:
            return None
        if self.rates.consumed == self.rates.produced:
            return Trend.STANDS
        return Trend.SHRINKS if self.rates.consumed > self.rates.produced else Trend.GROWS

    @property
    def seconds_left(self) -> float | None:
        """Time until the lag is zero at the current rates. None if it is unknown or infinite."""
        if self.trend is Trend.CAUGHT_UP:
            return 0.0
        if self.trend is not Trend.SHRINKS or self.records is None or self.rates is None:
            return None
        return self.records / (self.rates.consumed - self.rates.produced)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    partition: TopicPartition
    committed: int | None
    end: int | None
    lag: Lag
    member: GroupMember | None
    """The member that the partition is assigned to."""


def sample_offsets(cluster: Cluster, groups: Sequence[GroupDescription], clock: Callable[[], float]) -> OffsetSample:
    committed = Groups(cluster).offsets(group.id for group in groups)
    partitions = {partition for group in groups for partition in _partitions_of(group, committed[group.id])}
    return OffsetSample(at_s=clock(), committed=committed, ends=_ends(cluster, partitions))


def lags_of(group: GroupDescription, first: OffsetSample | None, last: OffsetSample) -> list[PartitionLag]:
    """Return the lag of each partition, sorted by name. `first` is None if there is only one sample."""
    readers = {partition: member for member in group.members for partition in member.assigned or ()}
    committed = last.committed[group.id]
    found = []
    for partition in sorted(_partitions_of(group, committed)):
        at, end = committed.get(partition), last.ends.get(partition)
        found.append(
            PartitionLag(
                partition=partition,
                committed=at,
                end=end,
                lag=Lag(records=_lag(at, end), rates=_rates(group.id, partition, first, last)),
                member=readers.get(partition),
            )
        )
    return found


def total_of(lags: Sequence[PartitionLag]) -> Lag:
    """Add up the known lags and rates."""
    known = [one.lag.records for one in lags if one.lag.records is not None]
    rates = [one.lag.rates for one in lags if one.lag.rates is not None]
    return Lag(
        records=sum(known) if known else None,
        rates=Rates(consumed=sum(one.consumed for one in rates), produced=sum(one.produced for one in rates))
        if rates
        else None,
    )


def _partitions_of(group: GroupDescription, committed: Offsets) -> set[TopicPartition]:
    return set(committed).union(*(member.assigned or () for member in group.members))


def _lag(committed: int | None, end: int | None) -> int | None:
    # The end offset may be below the committed one after an unclean leader election.
    return None if committed is None or end is None else max(0, end - committed)


def _rates(group_id: str, partition: TopicPartition, first: OffsetSample | None, last: OffsetSample) -> Rates | None:
    if first is None or last.at_s <= first.at_s:
        return None
    before, after = first.committed[group_id].get(partition), last.committed[group_id].get(partition)
    began, ended = first.ends.get(partition), last.ends.get(partition)
    if before is None or after is None or began is None or ended is None:
        return None
    span_s = last.at_s - first.at_s
    # If the group was reset to an earlier offset in between, it counts as having consumed nothing.
    return Rates(consumed=max(0, after - before) / span_s, produced=max(0, ended - began) / span_s)


def _ends(cluster: Cluster, partitions: set[TopicPartition]) -> Offsets:
    layout = cluster.retry("finding leaders", lambda: cluster.layout({one.topic for one in partitions}))
    led = {
        TopicPartition(topic.name, one.id)
        for topic in layout.topics.values()
        for one in topic.partitions
        if one.leader >= 0
    }
    return Admin(cluster).offsets(dict.fromkeys(partitions & led, LATEST))
