from uuid import UUID

import pytest

from odradek.raft.voters import Quorum, UnsuitableQuorum, check_only_voter, first_messages, standalone
from odradek.records.control import KRaftVersion, LeaderChangeV0, VoterEndpoint, Voters

DIRECTORY = UUID(int=7000)
HERE = (VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=9093),)
MOVED = (VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=9999),)


def test_fixed_voters_are_the_configurations() -> None:
    check_only_voter(Quorum(), 1, None, (1,))
    for configured in ((), (2,), (1, 2)):
        with pytest.raises(UnsuitableQuorum, match=r"controller\.quorum\.voters"):
            check_only_voter(Quorum(), 1, DIRECTORY, configured)


def test_voters_by_directory_are_the_logs() -> None:
    quorum = standalone(1, DIRECTORY, HERE)
    check_only_voter(quorum, 1, DIRECTORY, ())
    with pytest.raises(UnsuitableQuorum, match="another directory"):
        check_only_voter(quorum, 1, UUID(int=8000), ())
    with pytest.raises(UnsuitableQuorum, match="voters are 1"):
        check_only_voter(quorum, 2, DIRECTORY, ())
    two = Quorum(1, (*quorum.voters, *standalone(2, UUID(int=8000), HERE).voters))
    with pytest.raises(UnsuitableQuorum, match="voters are 1, 2"):
        check_only_voter(two, 1, DIRECTORY, ())
    with pytest.raises(UnsuitableQuorum, match="nobody"):
        check_only_voter(Quorum(1), 1, DIRECTORY, ())


def test_messages_lead_back_to_the_quorum() -> None:
    quorum = standalone(1, DIRECTORY, HERE)
    assert Quorum().after(quorum.messages()) == quorum
    assert Quorum().messages() == ()


def test_an_empty_log_begins_with_the_voters() -> None:
    quorum = standalone(1, DIRECTORY, HERE)
    messages, after = first_messages(quorum, 1, HERE, log_is_empty=True)
    assert [type(message) for message in messages] == [LeaderChangeV0, KRaftVersion, Voters]
    assert after == quorum
    messages, _ = first_messages(quorum, 1, HERE, log_is_empty=False)
    assert [type(message) for message in messages] == [LeaderChangeV0]


def test_a_voter_that_has_moved_says_so() -> None:
    messages, after = first_messages(standalone(1, DIRECTORY, HERE), 1, MOVED, log_is_empty=False)
    assert [type(message) for message in messages] == [LeaderChangeV0, Voters]
    assert after.voters[0].endpoints == MOVED
    assert Quorum(1).after(messages) == after


def test_fixed_voters_are_not_written() -> None:
    messages, after = first_messages(Quorum(), 1, HERE, log_is_empty=True)
    assert [type(message) for message in messages] == [LeaderChangeV0]
    assert after == Quorum()
