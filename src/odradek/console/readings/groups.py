"""Rows for groups: members, topics and lag."""

from collections.abc import Mapping, Sequence

from odradek.client.groups import EMPTY, GroupDescription, GroupListing
from odradek.client.lag import Lag, PartitionLag, Trend, total_of
from odradek.client.partition_names import name_partitions
from odradek.client.rebalances import Rebalance
from odradek.console.queries.groups import GroupDetail, GroupSummary
from odradek.console.readings.table import Cell, Column, Page, Row, Tone, format_count, inert, link_to, page_of
from odradek.text.times import format_span, format_time

DELETE = "Delete"

COLUMNS = (
    Column("group", "Group"),
    Column("type", "Type"),
    Column("state", "State"),
    Column("members", "Members", is_number=True),
    Column("lag", "Lag", is_number=True),
    Column("coordinator", "Coordinator", is_number=True),
)

MEMBER_COLUMNS = (
    Column("client", "Client"),
    Column("host", "Host"),
    Column("instance", "Instance"),
    Column("assigned", "Assignment"),
    Column("target", "Target assignment"),
    Column("member", "Member"),
)

LAG_COLUMNS = (
    Column("partition", "Partition"),
    Column("committed", "Committed", is_number=True),
    Column("end", "End offset", is_number=True),
    Column("lag", "Lag", is_number=True),
    Column("trend", "It"),
    Column("left", "Time to catch up", is_number=True),
    Column("reader", "Consumer"),
)

REBALANCE_COLUMNS = (Column("began", "Began"), Column("took", "Took", is_number=True), Column("cause", "Cause"))


def group_page(listings: Sequence[GroupListing], *, search: str, page: int) -> Page[GroupListing]:
    wanted = search.strip().lower()
    return page_of([one for one in listings if wanted in one.id.lower()], page)


def group_rows(listings: Sequence[GroupListing], summaries: Mapping[str, GroupSummary]) -> list[Row]:
    """Summaries load after names; missing values show as an ellipsis."""
    return [
        Row(
            one.id,
            {
                "group": Cell(inert(one.id) or "(no name)", link_to("groups", "one", id=one.id)),
                "type": inert(one.type or one.protocol_type or "unknown"),
                "state": state_cell(one.state),
                "members": f"{summaries[one.id].members:,}" if one.id in summaries else "…",
                "lag": lag_text(summaries[one.id].lag) if one.id in summaries else "…",
                "coordinator": str(one.coordinator_id),
            },
            (DELETE,) if one.state == EMPTY else (),
        )
        for one in listings
    ]


def state_cell(state: str) -> Cell:
    tones = {"Stable": Tone.GOOD, EMPTY: None, "Dead": None}
    return Cell(inert(state or "unknown"), tone=tones.get(state, Tone.WARNING) if state else None)


def lag_text(lag: Lag) -> str:
    return "unknown" if lag.records is None else f"{lag.records:,}"


def heading_of(detail: GroupDetail) -> str:
    group = detail.group
    assignor = f", assignor {inert(group.assignor)}" if group.assignor else ""
    epoch = f", epoch {group.epoch}" if group.epoch is not None else ""
    return (
        f"{inert(group.type)} group, {inert(group.state)}, {format_count(len(group.members), 'member')}"
        f"{assignor}{epoch},"
        f" coordinated by broker {group.coordinator.node_id}. {_lag_sentence(total_of(detail.lags))}"
    )


def member_rows(group: GroupDescription) -> list[Row]:
    return [
        Row(
            member.id,
            {
                "client": inert(member.client_id),
                "host": inert(member.host),
                "instance": inert(member.instance_id) if member.instance_id else "none",
                "assigned": "unreadable" if member.assigned is None else inert(name_partitions(member.assigned)),
                "target": inert(name_partitions(member.target))
                if member.target is not None and member.target != member.assigned
                else "same",
                "member": inert(member.id),
            },
        )
        for member in group.members
    ]


def lag_rows(lags: Sequence[PartitionLag]) -> list[Row]:
    return [
        Row(
            str(one.partition),
            {
                "partition": Cell(inert(str(one.partition)), link_to("topics", one.partition.topic)),
                "committed": "nothing" if one.committed is None else f"{one.committed:,}",
                "end": "unknown" if one.end is None else f"{one.end:,}",
                "lag": lag_text(one.lag),
                "trend": Cell(str(one.lag.trend), tone=Tone.WARNING if one.lag.trend is Trend.GROWS else None)
                if one.lag.trend
                else "…",
                "left": _time_left(one.lag),
                "reader": inert(one.member.client_id) if one.member else "none",
            },
        )
        for one in lags
    ]


def rebalance_rows(rebalances: Sequence[Rebalance]) -> list[Row]:
    return [
        Row(
            f"{number}:{one.began_ms}",
            {
                "began": format_time(one.began_ms),
                "took": "in progress" if one.ended_ms is None else format_span(one.ended_ms - one.began_ms),
                "cause": inert(one.cause),
            },
        )
        for number, one in enumerate(rebalances)
    ]


def _time_left(lag: Lag) -> str:
    if lag.trend is None or lag.seconds_left is None:
        return "…" if lag.rates is None else "never at this rate"
    return "now" if lag.seconds_left == 0 else format_span(int(lag.seconds_left * 1000))


def _lag_sentence(lag: Lag) -> str:
    if lag.records is None:
        return "No committed offsets."
    return f"Lag {format_count(lag.records, 'record')}." if lag.records else "Lag 0."
