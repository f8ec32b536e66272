"""Divergence as the leader reports it, and that leader and follower always find a common prefix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.replication.epochs import EpochEnd, divergence, truncation_point
from tests.replication.model_log import ModelLog, Record
from tests.unit.core.replication.test_follower import log_of


def test_prefix_of_the_leaders_log_does_not_diverge() -> None:
    log = log_of(1, 1, 2, 4)
    for offset, epoch in ((0, -1), (1, 1), (2, 1), (3, 2), (4, 4)):
        assert divergence(log, offset, epoch) is None


@pytest.mark.parametrize(
    ("offset", "epoch", "found"),
    [(3, 1, EpochEnd(1, 2)), (4, 2, EpochEnd(2, 3)), (4, 3, EpochEnd(2, 3)), (5, 4, EpochEnd(4, 4))],
)
def test_divergence_of_a_different_log(offset: int, epoch: int, found: EpochEnd) -> None:
    assert divergence(log_of(1, 1, 2, 4), offset, epoch) == found


@pytest.mark.parametrize(("offset", "epoch"), [(1, 1), (1, -1), (5, -1), (4, 9)])
def test_incomparable_logs_are_out_of_range(offset: int, epoch: int) -> None:
    log = log_of(1, 1, 2, 4)
    log.advance_log_start(2)
    with pytest.raises(KafkaError) as refused:
        divergence(log, offset, epoch)
    assert refused.value.code is ErrorCode.offset_out_of_range


@st.composite
def histories(draw: st.DrawFn) -> list[ModelLog]:
    """Logs from random elections, also unclean ones: each epoch has one leader, which continues any earlier log."""
    logs = [ModelLog() for _ in range(3)]
    for epoch in range(1, draw(st.integers(1, 6))):
        leader = draw(st.sampled_from(logs))
        leader.epochs.assign_unwritten(epoch, leader.log_end_offset)
        for value in range(draw(st.integers(0, 3))):
            leader.append_as_leader(epoch, 10 * epoch + value)
        for log in logs:
            if log is not leader and draw(st.booleans()):
                follow(log, leader, draw(st.integers(0, 4)))
    return logs


def follow(log: ModelLog, leader: ModelLog, records_max: int) -> None:
    for _ in range(50):
        latest = log.epochs.latest_epoch
        try:
            parted = divergence(leader, log.log_end_offset, -1 if latest is None else latest)
        except KafkaError:
            log.truncate_to(min(log.log_end_offset, leader.log_end_offset))
            return
        if parted is None:
            break
        log.truncate_to(truncation_point(log, parted))
    else:
        raise AssertionError("logs never agree")
    end = min(log.log_end_offset, leader.log_end_offset)
    assert log.records[:end] == leader.records[:end]
    log.append_as_follower(leader.read(log.log_end_offset, records_max))


@given(histories())
def test_repeated_truncation_ends_in_agreement(logs: list[ModelLog]) -> None:
    leader, *others = logs
    latest = max((log.epochs.latest_epoch or 0) for log in logs)
    leader.epochs.assign_unwritten(latest + 1, leader.log_end_offset)
    leader.append_as_leader(latest + 1, 999)
    for log in others:
        before = list(log.records)
        common = next(
            (at for at, (one, other) in enumerate(zip(before, leader.records, strict=False)) if one != other),
            min(len(before), len(leader.records)),
        )
        follow(log, leader, 0)
        assert log.records == before[: len(log.records)]
        assert len(log.records) <= common
        follow(log, leader, 1000)
        assert log.records == leader.records
    assert Record(latest + 1, 999) == leader.records[-1]
