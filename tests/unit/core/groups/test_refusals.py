"""Commands that no coordinator takes: what Kafka answers instead."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import (
    CommitAnswer,
    DeleteGroups,
    DeleteGroupsAnswer,
    FetchAnswer,
    FetchOffsets,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    PartitionError,
    SyncAnswer,
    SyncGroup,
    TopicErrors,
)
from odradek.core.groups.refusals import refuse
from tests.unit.core.groups.members import commit, join

LOADING = ErrorCode.coordinator_load_in_progress


def test_while_it_loads() -> None:
    assert refuse(join("me"), LOADING) == JoinAnswer(LOADING, "")
    assert refuse(SyncGroup("g", 1, "me", None, None, None, []), LOADING) == SyncAnswer(LOADING)
    assert refuse(Heartbeat("g", 1, "me", None), LOADING) == HeartbeatAnswer(ErrorCode.none)
    assert refuse(LeaveGroup("g", [LeavingMember("me", None)]), LOADING) == LeaveAnswer(LOADING)
    assert refuse(DeleteGroups(["g", "h"]), LOADING) == DeleteGroupsAnswer((("g", LOADING), ("h", LOADING)))
    assert refuse(commit(None, 5), LOADING) == CommitAnswer((TopicErrors("a", (PartitionError(0, LOADING),)),))


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.request_timed_out, ErrorCode.not_coordinator),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.coordinator_not_available, ErrorCode.coordinator_not_available),
        (LOADING, LOADING),
    ],
)
def test_a_fetch_is_to_be_tried_again(error: ErrorCode, answered: ErrorCode) -> None:
    assert refuse(FetchOffsets("g", None), error) == FetchAnswer("g", answered)


def test_what_old_clients_hear_of_leaving() -> None:
    refused = LeftMember("me", None, ErrorCode.unknown_member_id)
    assert LeaveAnswer(ErrorCode.none, (refused,)).single_error is ErrorCode.unknown_member_id
    assert LeaveAnswer(LOADING).single_error is LOADING
    assert LeaveAnswer(ErrorCode.none).single_error is ErrorCode.none
