from uuid import UUID

import pytest

from odradek.core.raft.quorum_state import QuorumState, UnreadableQuorumState


def test_static_voters_are_written_like_kafka() -> None:
    written = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    state = QuorumState(leader_id=1, leader_epoch=2)
    assert state.encode(0, (1,)) == written
    assert QuorumState.decode(written) == state


def test_dynamic_voters_are_written_like_kafka() -> None:
    written = (
        b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    state = QuorumState(leader_id=1, leader_epoch=3)
    assert state.encode(1, (1,)) == written
    assert QuorumState.decode(written) == state


def test_a_vote_is_read_back() -> None:
    state = QuorumState(leader_epoch=3, voted_id=2, voted_directory_id=UUID(int=12345))
    assert QuorumState.decode(state.encode(1, ())) == state


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"data_version":0}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1,"votedDirectoryId":"short"}',
        b"\xff\xfe",
    ],
)
def test_unreadable_file_is_rejected(data: bytes) -> None:
    with pytest.raises(UnreadableQuorumState):
        QuorumState.decode(data)
