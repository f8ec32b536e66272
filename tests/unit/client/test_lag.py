import pytest

from odradek.base.ids import TopicPartition
from odradek.client.address import Address
from odradek.client.coordinators import Coordinator
from odradek.client.groups import GroupDescription, GroupMember, Offsets
from odradek.client.lag import Lag, OffsetSample, Rates, Trend, lags_of, total_of

A, B, C = (TopicPartition("orders", number) for number in range(3))
MEMBER = GroupMember(id="m", instance_id=None, client_id="c", host="/h", assigned=(A, C))
GROUP = GroupDescription(
    id="g",
    type="classic",
    state="Stable",
    protocol_type="consumer",
    assignor="range",
    coordinator=Coordinator(1, Address("h", 1)),
    members=(MEMBER, GroupMember(id="n", instance_id=None, client_id="d", host="/h", assigned=None)),
)


def sample(at_s: float, committed: Offsets, ends: Offsets) -> OffsetSample:
    return OffsetSample(at_s=at_s, committed={"g": committed}, ends=ends)


def test_committed_and_assigned_partitions_have_a_lag() -> None:
    found = lags_of(GROUP, None, sample(1.0, {A: 5, B: 7}, {A: 15, C: 4}))
    assert [(one.partition, one.committed, one.end, one.lag.records, one.member) for one in found] == [
        (A, 5, 15, 10, MEMBER),
        (B, 7, None, None, None),
        (C, None, 4, None, MEMBER),
    ]
    assert all(one.lag.rates is None for one in found)
    assert total_of(found) == Lag(records=10, rates=None)


def test_rates_need_two_samples() -> None:
    first = sample(10.0, {A: 0, B: 0}, {A: 100, B: 50, C: 1})
    last = sample(12.0, {A: 60, B: 10}, {A: 120, B: 70, C: 3})
    found = lags_of(GROUP, first, last)
    assert [one.lag.rates for one in found] == [
        Rates(consumed=30.0, produced=10.0),
        Rates(consumed=5.0, produced=10.0),
        None,
    ]
    assert [one.lag.trend for one in found] == [Trend.SHRINKS, Trend.GROWS, None]
    assert [one.lag.seconds_left for one in found] == [3.0, None, None]
    total = total_of(found)
    assert (total.records, total.rates, total.seconds_left) == (120, Rates(consumed=35.0, produced=20.0), 8.0)


def test_rates_are_never_negative() -> None:
    (found,) = lags_of(
        GroupDescription(**{**_fields(GROUP), "members": ()}),
        sample(0.0, {A: 50}, {A: 100}),
        sample(1.0, {A: 10}, {A: 5}),
    )
    assert found.lag == Lag(records=0, rates=Rates(consumed=0.0, produced=0.0))


def _fields(group: GroupDescription) -> dict[str, object]:
    return {name: getattr(group, name) for name in GroupDescription.__slots__}


def test_two_samples_at_the_same_time_have_no_rates() -> None:
    (found,) = lags_of(
        GroupDescription(**{**_fields(GROUP), "members": ()}), sample(1.0, {A: 1}, {A: 2}), sample(1.0, {A: 2}, {A: 3})
    )
    assert found.lag.rates is None


@pytest.mark.parametrize(
    ("records", "rates", "trend", "seconds_left"),
    [
        (None, None, None, None),
        (0, None, Trend.CAUGHT_UP, 0.0),
        (0, Rates(consumed=1.0, produced=5.0), Trend.CAUGHT_UP, 0.0),
        (5, None, None, None),
        (5, Rates(consumed=0.0, produced=0.0), Trend.STANDS, None),
        (5, Rates(consumed=2.0, produced=1.0), Trend.SHRINKS, 5.0),
        (5, Rates(consumed=1.0, produced=2.0), Trend.GROWS, None),
    ],
)
def test_trend_and_time_left(
    records: int | None, rates: Rates | None, trend: Trend | None, seconds_left: float | None
) -> None:
    lag = Lag(records=records, rates=rates)
    assert (lag.trend, lag.seconds_left) == (trend, seconds_left)
