from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.raft.errors import BrokenQuorum
from odradek.core.raft.voter_set import QuorumHistory, ReplicaKey, VoterSet, key_of, matches
from odradek.core.raft.voters import Quorum
from odradek.records.control import KRaftVersion, KRaftVersionRange, LeaderChangeV0, VoterRegistration, Voters
from tests.raft.world import directory_of, registration


def voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(registration(node_id, with_directory=True) for node_id in node_ids)


def key(node_id: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, directory_of(directory or node_id))


def test_voter_matches_by_directory_if_known() -> None:
    assert voters(1, 2).is_voter(key(1))
    assert not voters(1, 2).is_voter(key(1, 9))
    assert not voters(1, 2).is_voter(key(3))
    fixed = VoterSet.of([registration(1, with_directory=False)])
    assert fixed.is_voter(key(1, 9))
    assert matches(ReplicaKey(1, None), key(1))
    assert not matches(key(1), ReplicaKey(1, None))


def test_changes_return_new_sets() -> None:
    one, two = voters(1), voters(1, 2)
    assert one.add(registration(2, with_directory=True)) == two
    assert two.add(_with_directory(2, 9)) is None
    assert two.remove(key(2)) == one
    assert two.remove(key(2, 9)) is None
    assert one.remove(key(1)) is None
    assert two.update(_with_directory(2, 9)) is None
    assert two.update_by_id(_with_directory(2, 9)) != two
    assert two.update_by_id(registration(3, with_directory=True)) is None
    assert (one.is_only_voter(key(1)), two.is_only_voter(key(1))) == (True, False)


def _with_directory(node_id: int, directory: int) -> VoterRegistration:
    known = registration(node_id, with_directory=True)
    return VoterRegistration(
        voter_id=node_id,
        voter_directory_id=directory_of(directory),
        endpoints=known.endpoints,
        kraft_version_feature=KRaftVersionRange(min_supported_version=1, max_supported_version=1),
    )


def test_all_voters_must_support_a_version() -> None:
    both = VoterSet.of([registration(1, with_directory=True), _with_directory(2, 2)])
    assert (both.supports(0), both.supports(1), both.supports(2)) == (False, True, False)


@given(st.sets(st.integers(1, 5), min_size=1), st.sets(st.integers(1, 5), min_size=1))
def test_majorities_overlap(one: set[int], other: set[int]) -> None:
    first, second = voters(*one), voters(*other)
    expected = all(
        set(some) & set(others)
        for some in combinations(sorted(one), first.majority)
        for others in combinations(sorted(other), second.majority)
    )
    assert first.has_overlapping_majority(second) == expected


# Along the log


def test_voter_change_holds_until_its_record_is_truncated() -> None:
    history = QuorumHistory(voters(1))
    assert (history.kraft_version, history.voters, history.last_change_offset) == (0, voters(1), None)
    change = LeaderChangeV0(leader_id=1, voters=(), granting_voters=())
    history.on_append((change, KRaftVersion(kraft_version=1), Voters(voters=voters(1, 2).voters)), 10)
    assert (history.kraft_version, history.voters, history.last_change_offset) == (1, voters(1, 2), 12)
    history.on_append((Voters(voters=voters(1, 2, 3).voters),), 20)
    assert history.at(20) == Quorum(1, voters(1, 2).voters)
    assert history.at(21) == Quorum(1, voters(1, 2, 3).voters)
    assert history.at(10) == Quorum()
    assert history.voters_before_change(20) == voters(1, 2)
    history.truncate(20)
    assert history.voters == voters(1, 2)
    history.truncate(12)
    assert (history.kraft_version, history.voters) == (1, voters(1))
    history.truncate(0)
    assert history.last_change_offset is None


def test_voters_of_a_snapshot_survive_log_deletion() -> None:
    history = QuorumHistory(VoterSet())
    history.load(Quorum(1, voters(1).voters), 0)
    assert history.last_change_offset == -1
    for offset, ids in ((5, (1, 2)), (9, (1, 2, 3))):
        history.on_append((Voters(voters=voters(*ids).voters),), offset)
    history.forget_before(8)
    assert history.at(8) == Quorum(1, voters(1, 2).voters)
    assert history.at(5) == Quorum()
    history.load(Quorum(), 30)
    assert (history.voters, history.kraft_version) == (VoterSet(), 0)


def test_voter_sets_with_disjoint_majorities_are_rejected() -> None:
    history = QuorumHistory(voters(7, 8, 9))
    history.on_append((Voters(voters=voters(1, 2, 3).voters),), 0)
    with pytest.raises(BrokenQuorum, match="may have disjoint majorities"):
        history.on_append((Voters(voters=voters(1, 4, 5).voters),), 1)


def test_keys() -> None:
    assert voters(2, 1).keys == (key(1), key(2))
    assert key_of(registration(1, with_directory=False)) == ReplicaKey(1, None)
