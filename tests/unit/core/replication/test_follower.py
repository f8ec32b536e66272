"""The follower state: fetch positions, truncation, back-off."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.replication.effects import (
    Append,
    BackOff,
    FetchLeaderOffsets,
    ReportFault,
    TruncateFullyTo,
    TruncateTo,
)
from odradek.core.replication.epochs import EpochEnd
from odradek.core.replication.follower import (
    BACKOFF_FIRST_SECONDS,
    FetchPosition,
    FetchResponse,
    FollowerState,
)
from odradek.core.replication.high_watermark import HighWatermark
from tests.replication.model_log import ModelLog, Record

BACKOFF_MAX = 0.1


def log_of(*epochs: int) -> ModelLog:
    log = ModelLog()
    log.append_as_follower(tuple(Record(epoch, offset) for offset, epoch in enumerate(epochs)))
    return log


def follower(high_watermark: int = 0, leader_epoch: int = 5) -> FollowerState:
    return FollowerState(
        leader_id=1,
        leader_epoch=leader_epoch,
        high_watermark=HighWatermark(high_watermark),
        backoff_max_seconds=BACKOFF_MAX,
    )


def position_of(state: FollowerState, log: ModelLog, now: float = 0.0) -> FetchPosition:
    position = state.fetch_position(log, now)
    assert position is not None
    return position


def respond(state: FollowerState, log: ModelLog, now: float = 0.0, **fields: object) -> object:
    return state.on_fetch_response(log, position_of(state, log, now), FetchResponse(**fields), now)  # type: ignore[arg-type]


def test_fetch_position_is_the_log_end() -> None:
    assert position_of(follower(), log_of(1, 1, 3)) == FetchPosition(5, 3, 3, 0)
    assert position_of(follower(), log_of()) == FetchPosition(5, 0, -1, 0)


def test_append_advances_the_high_watermark() -> None:
    state, log = follower(), log_of(1)
    response = FetchResponse(high_watermark=2, log_start_offset=0, first_offset=1)
    assert state.on_fetch_response(log, position_of(state, log), response, 0.0) == Append()
    log.append_as_follower((Record(5, 1), Record(5, 2)))
    assert state.on_append(log, response) == 0
    assert (state.high_watermark, state.lag) == (2, 0)


def test_high_watermark_of_a_follower_is_at_most_its_log_end() -> None:
    state, log = follower(), log_of(1)
    assert state.on_append(log, FetchResponse(high_watermark=50, log_start_offset=0)) == 0
    assert (state.high_watermark, state.lag) == (1, 49)


def test_new_leader_with_lower_high_watermark_does_not_lower_it() -> None:
    state, log = follower(high_watermark=3), log_of(1, 1, 1)
    assert state.on_append(log, FetchResponse(high_watermark=1, log_start_offset=0)) == 0
    assert state.high_watermark == 3


def test_log_start_follows_the_leader_up_to_the_high_watermark() -> None:
    state, log = follower(), log_of(1, 1, 1)
    assert state.on_append(log, FetchResponse(high_watermark=9, log_start_offset=2)) == 2
    assert state.on_append(log, FetchResponse(high_watermark=9, log_start_offset=8)) == 3
    log.advance_log_start(2)
    assert state.on_append(log, FetchResponse(high_watermark=9, log_start_offset=0)) == 2


# Outdated responses


def test_response_of_a_former_leader_is_ignored() -> None:
    state, log = follower(), log_of(1)
    position = position_of(state, log)
    state.follow(2, 6)
    assert state.on_fetch_response(log, position, FetchResponse(first_offset=1), 0.0) is None
    assert state.on_fetch_response(log, position, FetchResponse(error=ErrorCode.fenced_leader_epoch), 0.0) is None
    assert state.on_fetch_response(log, position, FetchResponse(diverging=EpochEnd(0, 0)), 0.0) is None
    assert state.on_fetch_failure(position, 0.0) is None
    assert state.on_append_failure(position, "torn", 0.0) is None
    assert state.on_leader_offsets(log, 5, 100, 200, 0.0) is None
    assert state.on_leader_offsets_failure(5, ErrorCode.not_controller, 0.0) is None
    assert position_of(state, log).leader_epoch == 6


def test_response_for_another_log_end_is_ignored() -> None:
    state, log = follower(), log_of(1, 1)
    position = position_of(state, log)
    log.truncate_to(1)
    assert state.on_fetch_response(log, position, FetchResponse(first_offset=2), 0.0) is None


def test_response_for_a_truncated_and_regrown_log_is_ignored() -> None:
    state, log = follower(), log_of(1, 2, 2)
    position = position_of(state, log)
    log.truncate_to(1)
    log.append_as_follower((Record(5, 1), Record(5, 2)))
    assert state.on_fetch_response(log, position, FetchResponse(diverging=EpochEnd(1, 1)), 0.0) is None


def test_older_leader_epoch_is_ignored() -> None:
    state = follower()
    state.follow(2, 4)
    state.follow(2, 5)
    assert (state.leader_id, state.leader_epoch) == (1, 5)


# Truncation


@pytest.mark.parametrize(
    ("own", "leader", "offset"),
    [
        ((1, 1, 2, 2), EpochEnd(2, 3), 3),
        ((1, 1, 2, 2), EpochEnd(1, 2), 2),
        ((1, 1, 2, 2), EpochEnd(1, 1), 1),
        # The leader has more records of the epoch than this log: records of later epochs are truncated all the same.
        ((1, 1, 2, 2), EpochEnd(1, 9), 2),
        # An epoch that is not in this log: truncate to the end of the previous one.
        ((1, 1, 4, 4), EpochEnd(3, 4), 2),
        # Before all epochs of this log.
        ((3, 3), EpochEnd(2, 1), 0),
    ],
)
def test_diverging_log_is_truncated_where_epochs_diverge(own: tuple[int, ...], leader: EpochEnd, offset: int) -> None:
    state = follower(high_watermark=1)
    wanted = TruncateTo(offset, loses_committed=offset < 1)
    assert respond(state, log_of(*own), diverging=leader, high_watermark=9, first_offset=4) == wanted
    assert state.high_watermark == 1, "the rest of a diverging response is ignored"


def test_truncation_lowers_the_high_watermark() -> None:
    state, log = follower(high_watermark=3), log_of(1, 1, 1)
    assert respond(state, log, diverging=EpochEnd(1, 2)) == TruncateTo(2, loses_committed=True)
    log.truncate_to(2)
    state.shared_high_watermark.on_truncation(log.log_start_offset, log.log_end_offset)
    assert state.high_watermark == 2


def test_epoch_without_records_is_truncated_too() -> None:
    """This replica led the epoch and lost leadership before its first append."""
    state, log = follower(), log_of(1, 1)
    log.epochs.assign_unwritten(4, 2)
    assert position_of(state, log).last_fetched_epoch == 4
    assert respond(state, log, diverging=EpochEnd(1, 2)) == TruncateTo(2, loses_committed=False)
    log.truncate_to(2)
    assert position_of(state, log).last_fetched_epoch == 1


@pytest.mark.parametrize("leader", [EpochEnd(-1, -1), EpochEnd(1, -1), EpochEnd(3, 9), EpochEnd(1, 2)])
def test_false_divergence_is_reported_and_backs_off(leader: EpochEnd) -> None:
    state, log = follower(), log_of(1, 1)
    effect = respond(state, log, diverging=leader)
    assert isinstance(effect, ReportFault)
    assert state.fetch_position(log, 0.0) is None


# Out of range


def test_out_of_range_fetches_leader_offsets_before_truncation() -> None:
    state, log = follower(), log_of(1, 1)
    assert respond(state, log, error=ErrorCode.offset_out_of_range) == FetchLeaderOffsets()
    assert state.fetch_position(log, 1000.0) is None
    assert state.next_fetch_at is None
    assert state.on_leader_offsets(log, 5, 100, 200, 0.0) == TruncateFullyTo(100)
    log.truncate_fully_to(100)
    state.shared_high_watermark.on_truncation(log.log_start_offset, log.log_end_offset)
    assert state.high_watermark == 100
    assert position_of(state, log) == FetchPosition(5, 100, -1, 100)


def test_log_longer_than_the_leaders_is_truncated_to_its_end() -> None:
    state, log = follower(high_watermark=2), log_of(1, 1)
    respond(state, log, error=ErrorCode.offset_out_of_range)
    assert state.on_leader_offsets(log, 5, 0, 1, 0.0) == TruncateTo(1, loses_committed=True)


def test_log_within_the_leaders_range_is_kept() -> None:
    state, log = follower(), log_of(1, 1)
    respond(state, log, error=ErrorCode.offset_out_of_range)
    wanted = BackOff(BACKOFF_FIRST_SECONDS, ErrorCode.offset_out_of_range)
    assert state.on_leader_offsets(log, 5, 0, 2, 0.0) == wanted
    assert position_of(state, log, 1.0).fetch_offset == 2


def test_failed_leader_offsets_request_is_retried() -> None:
    state, log = follower(), log_of(1, 1)
    respond(state, log, error=ErrorCode.offset_out_of_range)
    effect = state.on_leader_offsets_failure(5, ErrorCode.network_exception, 0.0)
    assert effect == BackOff(BACKOFF_FIRST_SECONDS, ErrorCode.network_exception)
    assert respond(state, log, 1.0, error=ErrorCode.offset_out_of_range) == FetchLeaderOffsets()
    assert state.on_leader_offsets_failure(5, ErrorCode.fenced_leader_epoch, 1.0) == BackOff(
        None, ErrorCode.fenced_leader_epoch
    )


# Back-off


def test_back_off_doubles_and_resets_on_success() -> None:
    state, log = follower(), log_of()
    now, pauses = 0.0, []
    for _ in range(6):
        effect = respond(state, log, now, error=ErrorCode.unknown_leader_epoch)
        assert isinstance(effect, BackOff)
        assert effect.until is not None
        assert state.fetch_position(log, effect.until - 0.001) is None
        assert state.next_fetch_at == effect.until
        pauses.append(round(effect.until - now, 6))
        now = effect.until
    assert pauses == [0.01, 0.02, 0.04, 0.08, 0.1, 0.1]
    assert respond(state, log, now, high_watermark=0, log_start_offset=0) == Append()
    assert state.fetch_position(log, now) is not None
    assert state.on_fetch_failure(position_of(state, log, now), now) == BackOff(now + 0.01, ErrorCode.network_exception)


def test_fenced_follower_waits_for_new_metadata() -> None:
    state, log = follower(), log_of()
    assert respond(state, log, error=ErrorCode.fenced_leader_epoch) == BackOff(None, ErrorCode.fenced_leader_epoch)
    assert state.fetch_position(log, 1000.0) is None
    state.follow(1, 6)
    assert state.fetch_position(log, 0.0) is not None


def test_new_leader_resets_the_back_off() -> None:
    state, log = follower(), log_of()
    respond(state, log, error=ErrorCode.not_leader_or_follower)
    state.follow(3, 6)
    assert state.fetch_position(log, 0.0) is not None


def test_unexpected_error_is_reported() -> None:
    effect = respond(follower(), log_of(), error=ErrorCode.unknown_server_error)
    assert effect == ReportFault(BACKOFF_FIRST_SECONDS, "the leader returned unknown_server_error")


def test_corrupt_records_are_fetched_again() -> None:
    state, log = follower(), log_of()
    effect = state.on_append_failure(position_of(state, log), "bad checksum", 0.0)
    assert effect == ReportFault(BACKOFF_FIRST_SECONDS, "bad checksum")


# A log that starts inside a batch


def test_empty_log_restarts_at_an_earlier_batch() -> None:
    state, log = follower(), log_of()
    log.truncate_fully_to(100)
    assert respond(state, log, high_watermark=200, log_start_offset=100, first_offset=98) == Append(restart_at=98)


def test_records_before_the_log_end_are_reported() -> None:
    effect = respond(follower(), log_of(1, 1), high_watermark=9, log_start_offset=0, first_offset=1)
    assert isinstance(effect, ReportFault)
