import pytest

from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.coordinators import Coordinator
from odradek.client.groups import GroupDescription, GroupListing, GroupMember
from odradek.client.lag import Lag, OffsetSample, Rates, lags_of
from odradek.console.actions.action import Refused
from odradek.console.actions.groups import reset_of
from odradek.console.queries.groups import GroupDetail, GroupSummary
from odradek.console.readings.groups import DELETE, group_page, group_rows, heading_of, lag_rows, member_rows

FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


def listing(name: str, state: str = "Stable") -> GroupListing:
    return GroupListing(id=name, type="classic", state=state, protocol_type="consumer", coordinator_id=1)


def group(*members: GroupMember) -> GroupDescription:
    return GroupDescription(
        id="readers",
        type="classic",
        state="Stable",
        protocol_type="consumer",
        assignor="range",
        coordinator=Coordinator(2, Address("host", 1)),
        members=members,
    )


MEMBER = GroupMember(id="m-1", instance_id=None, client_id="c\x07", host="/h", assigned=(FIRST,))


def test_ten_thousand_groups_are_searched_and_paged() -> None:
    listings = [listing(f"group-{number:05}") for number in range(10_000)]
    page = group_page(listings, search="GROUP-0999", page=1)
    assert [one.id for one in page.items] == [f"group-0999{number}" for number in range(10)]
    assert group_page(listings, search="", page=400).sentence == "9,976 to 10,000 of 10,000"


def test_only_an_empty_group_can_be_deleted_and_unknown_lag_is_shown_as_pending() -> None:
    rows = group_rows(
        [listing("a"), listing("b", "Empty")], {"b": GroupSummary(members=0, lag=Lag(records=5, rates=None))}
    )
    assert [(row.actions, row.text("lag")) for row in rows] == [((), "…"), ((DELETE,), "5")]


def test_lag_rows_show_trend_and_time_to_catch_up() -> None:
    first = OffsetSample(at_s=0.0, committed={"readers": {FIRST: 0, SECOND: 10}}, ends={FIRST: 100, SECOND: 10})
    last = OffsetSample(at_s=10.0, committed={"readers": {FIRST: 50, SECOND: 10}}, ends={FIRST: 110, SECOND: 30})
    described = group(MEMBER)
    behind, grows = lag_rows(lags_of(described, first, last))
    assert [behind.text(name) for name in ("committed", "end", "lag", "trend", "left", "reader")] == [
        "50",
        "110",
        "60",
        "shrinks",
        "15.0 s",
        "c\\x07",
    ]
    assert [grows.text(name) for name in ("lag", "trend", "left", "reader")] == [
        "20",
        "grows",
        "never at this rate",
        "none",
    ]
    assert Rates(consumed=5.0, produced=1.0) == lags_of(described, first, last)[0].lag.rates


def test_group_heading_summarizes_state_and_lag() -> None:
    sample = OffsetSample(at_s=0.0, committed={"readers": {FIRST: 7}}, ends={FIRST: 10})
    described = group(MEMBER)
    lags = tuple(lags_of(described, None, sample))
    heading = heading_of(GroupDetail(group=described, sample=sample, lags=lags, rebalances=None))
    assert heading == ("classic group, Stable, 1 member, assignor range, coordinated by broker 2. Lag 3 records.")
    (row,) = member_rows(described)
    assert (row.text("client"), row.text("assigned"), row.text("target")) == ("c\\x07", "orders:0", "same")


@pytest.mark.parametrize(
    ("where", "at", "described"),
    [
        ("earliest", "", "at the beginning"),
        ("latest", "", "at the end"),
        ("offset", "17", "at offset 17"),
        ("shift", "-10", "-10 records from the committed offset"),
        ("time", "2026-01-31T12:00:00Z", "at 2026-01-31T12:00:00Z"),
    ],
)
def test_offset_reset_is_parsed_from_the_form(where: str, at: str, described: str) -> None:
    reset = reset_of("g", where, at, " a, b,")
    assert (reset.described, list(reset.topics)) == (described, ["a", "b"])


@pytest.mark.parametrize(("where", "at"), [("offset", "-1"), ("offset", ""), ("shift", "x"), ("time", "yesterday")])
def test_invalid_offset_reset_is_refused(where: str, at: str) -> None:
    with pytest.raises(Refused):
        reset_of("g", where, at, "")
