"""Error responses to commands that no coordinator executes equal Kafka's."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitResponse,
    DeleteGroups,
    DeleteGroupsResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    LeavingMember,
    LeftMember,
    PartitionError,
    SyncGroup,
    SyncResponse,
    TopicErrors,
)
from odradek.core.groups.error_responses import error_response
from tests.unit.core.groups.members import commit, join

LOADING = ErrorCode.coordinator_load_in_progress


def test_error_responses_while_loading() -> None:
    assert error_response(join("me"), LOADING) == JoinResponse(LOADING, "")
    assert error_response(SyncGroup("g", 1, "me", None, None, None, []), LOADING) == SyncResponse(LOADING)
    assert error_response(Heartbeat("g", 1, "me", None), LOADING) == HeartbeatResponse(ErrorCode.none)
    assert error_response(LeaveGroup("g", [LeavingMember("me", None)]), LOADING) == LeaveResponse(LOADING)
    assert error_response(DeleteGroups(["g", "h"]), LOADING) == DeleteGroupsResponse((("g", LOADING), ("h", LOADING)))
    assert error_response(commit(None, 5), LOADING) == CommitResponse(
        (TopicErrors("a", (PartitionError(0, LOADING),)),)
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.request_timed_out, ErrorCode.not_coordinator),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.coordinator_not_available, ErrorCode.coordinator_not_available),
        (LOADING, LOADING),
    ],
)
def test_failed_write_makes_a_fetch_retriable(error: ErrorCode, expected: ErrorCode) -> None:
    assert error_response(FetchOffsets("g", None), error) == FetchOffsetsResponse("g", expected)


def test_single_error_of_leave_group_before_version_3() -> None:
    rejected = LeftMember("me", None, ErrorCode.unknown_member_id)
    assert LeaveResponse(ErrorCode.none, (rejected,)).single_error is ErrorCode.unknown_member_id
    assert LeaveResponse(LOADING).single_error is LOADING
    assert LeaveResponse(ErrorCode.none).single_error is ErrorCode.none
