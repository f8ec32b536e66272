"""The small books that a replica keeps: votes, others' offsets, requests on their way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.raft.ballot import Ballot
from odradek.core.raft.progress import OBSERVERS_MAX, ReplicationProgress
from odradek.core.raft.requests import Requests
from odradek.core.raft.voter_set import ReplicaKey, VoterSet
from tests.raft.world import directory_of, key_of, registration


def voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(registration(node_id, with_directory=True) for node_id in node_ids)


# Ballots


@pytest.mark.parametrize(
    ("size", "granted", "rejected", "is_won", "is_lost"),
    [
        (1, 0, 0, True, False),
        (2, 0, 0, False, False),
        (2, 0, 1, False, True),
        (3, 1, 0, True, False),
        (3, 0, 1, False, False),
        (3, 0, 2, False, True),
        (4, 1, 1, False, False),
        (4, 1, 2, False, True),
        (5, 2, 2, True, False),
        (5, 1, 3, False, True),
    ],
)
def test_a_majority_decides(size: int, granted: int, rejected: int, is_won: bool, is_lost: bool) -> None:
    ballot = Ballot(voters(*range(1, size + 1)), 1)
    for node_id in range(2, 2 + granted + rejected):
        ballot.record(node_id, node_id < 2 + granted)
    assert (ballot.is_won, ballot.is_lost) == (is_won, is_lost)


def test_votes_of_other_nodes_do_not_count() -> None:
    ballot = Ballot(voters(1, 2, 3), 1)
    for stranger in (0, 4, -1):
        ballot.record(stranger, True)
    assert not ballot.is_won
    assert Ballot(voters(2), 1).granting_voters == ()


def test_granted_vote_cannot_be_revoked() -> None:
    ballot = Ballot(voters(1, 2, 3), 1)
    ballot.record(2, True)
    ballot.record(2, False)
    assert ballot.is_won
    assert [key.node_id for key in ballot.unrecorded_voters] == [3]


def test_ballot_is_lost_without_unreachable_voters() -> None:
    ballot = Ballot(voters(1, 2, 3), 1)
    ballot.record(2, False)
    assert not ballot.is_lost
    assert ballot.is_lost_without({3})


# Progress


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=6))
def test_majority_end_offset_is_synced_on_a_majority(ends: list[int | None]) -> None:
    progress = ReplicationProgress(voters(*range(1, len(ends) + 1)), key_of(1))
    for node_id, end in enumerate(ends, 1):
        progress.voters[node_id].end_offset = end
    committed = progress.majority_end_offset()
    known = [end for end in ends if end is not None]
    majority = len(ends) // 2 + 1
    if committed is None:
        assert len(known) < majority
    else:
        assert sum(end >= committed for end in known) >= majority
        assert sum(end > committed for end in known) < majority


def test_observers_do_not_count() -> None:
    progress = ReplicationProgress(voters(1, 2, 3), key_of(1))
    progress.of(key_of(1), 0).end_offset = 5
    progress.of(key_of(9), 0).end_offset = 5
    progress.of(ReplicaKey(2, directory_of(9)), 0).end_offset = 5
    assert progress.majority_end_offset() is None
    assert {key.node_id for key in progress.observers} == {9, 2}


def test_replicas_keep_their_offsets_when_voters_change() -> None:
    progress = ReplicationProgress(voters(1, 2), key_of(1))
    progress.of(key_of(2), 0).end_offset = 4
    progress.of(key_of(3), 0).end_offset = 6
    progress.update_voters(voters(1, 3))
    assert progress.voters[3].end_offset == 6
    assert progress.observers[key_of(2)].end_offset == 4
    progress.update_voters(voters(1, 2, 3))
    assert progress.voters[2].end_offset == 4
    assert not progress.observers


def test_replica_with_a_new_directory_has_no_offset() -> None:
    progress = ReplicationProgress(voters(1, 2), key_of(1))
    progress.of(key_of(2), 0).end_offset = 4
    other = VoterSet.of([registration(1, with_directory=True), registration(2, with_directory=False)])
    progress.update_voters(other)
    assert progress.voters[2].end_offset is None or progress.voters[2].key.directory_id is None


def test_caught_up_time_is_now_or_the_last_fetch() -> None:
    progress = ReplicationProgress(voters(1), key_of(1))
    replica = progress.of(key_of(2), 0)
    replica.on_fetch(5, 10, now_ms=100)
    assert replica.last_caught_up_ms == -1
    replica.on_fetch(10, 15, now_ms=200)
    assert replica.last_caught_up_ms == 100
    replica.on_fetch(15, 15, now_ms=300)
    assert replica.last_caught_up_ms == 300
    assert progress.is_caught_up(key_of(2), 300)
    assert not progress.is_caught_up(key_of(2), 300 + 3_600_000)
    assert not progress.is_caught_up(key_of(9), 300)


def test_successors_are_sorted_by_log_end() -> None:
    progress = ReplicationProgress(voters(1, 2, 3, 4), key_of(1))
    for node_id, end in ((1, 9), (3, 7), (4, 7)):
        progress.voters[node_id].end_offset = end
    assert [key.node_id for key in progress.successors()] == [3, 4, 2]


def test_observers_are_bounded() -> None:
    progress = ReplicationProgress(voters(1), key_of(1))
    for node_id in range(2, OBSERVERS_MAX + 10):
        progress.of(key_of(node_id), 0)
    assert len(progress.observers) == OBSERVERS_MAX


# Requests


def test_request_in_flight_times_out() -> None:
    requests = Requests(request_timeout_ms=100, retry_backoff_ms=20)
    first = requests.record_send(2, 0)
    assert not requests.is_ready(2, 99)
    assert requests.is_ready(3, 0)
    assert (requests.busy_until_ms(99), requests.has_timed_out(2, 100)) == (100, True)
    second = requests.record_send(2, 100)
    assert not requests.complete(2, first)
    assert not requests.complete(3, second)
    assert requests.complete(2, second)
    assert not requests.complete(2, second)


def test_failure_is_followed_by_a_backoff() -> None:
    requests = Requests(request_timeout_ms=100, retry_backoff_ms=20)
    assert requests.complete(2, requests.record_send(2, 0))
    requests.back_off(2, 5)
    assert (requests.is_ready(2, 24), requests.is_in_backoff(2, 24)) == (False, True)
    assert (requests.is_ready(2, 25), requests.is_in_backoff(2, 25)) == (True, False)
    requests.clear()
    assert requests.is_ready(2, 6)


def test_late_response_is_ignored_after_a_new_request() -> None:
    requests = Requests(request_timeout_ms=100, retry_backoff_ms=20)
    late = requests.record_send(2, 0)
    assert requests.busy_until_ms(100) is None
    assert not requests.complete(2, late)
