"""Queries groups: all names, summaries with lag for one page, and one group in detail."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek.base.errors import KafkaError
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.groups import GroupDescription, GroupListing, Groups
from odradek.client.lag import Lag, OffsetSample, PartitionLag, lags_of, sample_offsets, total_of
from odradek.client.rebalances import Rebalance, last_rebalances

_HTTP_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    members: int
    lag: Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    group: GroupDescription
    sample: OffsetSample
    """Passed as `before` to the next query, to compute rates."""
    lags: tuple[PartitionLag, ...]
    rebalances: tuple[Rebalance, ...] | None
    """Newest first; None if the coordinator does not report rebalances."""


def list_groups(cluster: Cluster) -> list[GroupListing]:
    return Groups(cluster).listings()


def summaries_of(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, GroupSummary]:
    """Omits groups that no longer exist."""
    described = Groups(cluster).describe(group_ids)
    groups = [one for one in described.values() if isinstance(one, GroupDescription)]
    sample = sample_offsets(cluster, groups, time.monotonic)
    return {one.id: GroupSummary(members=len(one.members), lag=total_of(lags_of(one, None, sample))) for one in groups}


def describe_group(cluster: Cluster, group_id: str, before: OffsetSample | None) -> GroupDetail:
    """Raises KafkaError if the group does not exist. `before` is an earlier sample, used to compute rates."""
    description = Groups(cluster).describe([group_id])[group_id]
    if isinstance(description, KafkaError):
        raise description
    sample = sample_offsets(cluster, [description], time.monotonic)
    return GroupDetail(
        group=description,
        sample=sample,
        lags=tuple(lags_of(description, before, sample)),
        rebalances=_rebalances(cluster, description),
    )


def _rebalances(cluster: Cluster, group: GroupDescription) -> tuple[Rebalance, ...] | None:
    try:
        rebalances = last_rebalances(cluster, [group.coordinator], timeout_s=_HTTP_S)
    except (KafkaError, ClientError):
        return None
    if group.coordinator not in rebalances:
        return None
    return tuple(reversed(rebalances[group.coordinator].get(group.id, [])))
