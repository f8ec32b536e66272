"""How far groups are behind, how fast that changes, and when they will have caught up: from two looks, or one.

What a group reads is what it has committed or is assigned; how fast it reads shows only in what it commits.
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
class Look:
    """At all groups at about the same moment."""

    at_s: float
    committed: Mapping[str, Offsets]
    ends: Offsets
    """Of partitions that have a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Records per second."""

    consumed: float
    produced: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Of one partition, or of several together."""

    records: int | None
    """None: nothing is committed, or the partition has no end to be seen."""
    rates: Rates | None
    """None until there were two looks."""

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
        """Until it is gone, if all goes on as between the looks. None: not known, or never."""
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
    """Who reads it now."""


def look_at(cluster: Cluster, groups: Sequence[GroupDescription], clock: Callable[[], float]) -> Look:
    committed = Groups(cluster).offsets(group.id for group in groups)
    partitions = {partition for group in groups for partition in _partitions_of(group, committed[group.id])}
    return Look(at_s=clock(), committed=committed, ends=_ends(cluster, partitions))


def lags_of(group: GroupDescription, first: Look | None, last: Look) -> list[PartitionLag]:
    """In the order of the partitions' names. `first` is None where there was one look only."""
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
    """Of what is known of all of them."""
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
    # Records may be deleted, or lost by an unclean election, behind the back of who committed.
    return None if committed is None or end is None else max(0, end - committed)


def _rates(group_id: str, partition: TopicPartition, first: Look | None, last: Look) -> Rates | None:
    if first is None or last.at_s <= first.at_s:
        return None
    before, after = first.committed[group_id].get(partition), last.committed[group_id].get(partition)
    began, ended = first.ends.get(partition), last.ends.get(partition)
    if before is None or after is None or began is None or ended is None:
        return None
    span_s = last.at_s - first.at_s
    # A group that was reset to an earlier offset in between has consumed nothing.
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
