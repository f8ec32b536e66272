from odradek.base.errors import ErrorCode
from odradek.core.raft import messages
from tests.raft.single import Single, fetch_request
from tests.raft.world import key_of


def test_the_leader_describes_the_quorum() -> None:
    single = Single(kraft_version=1)
    single.become_leader()
    single.sync()
    single.now_ms += 10
    single.receive(fetch_request(replica=2, end=(3, 1), max_wait_ms=0))
    single.receive(fetch_request(replica=9, end=(0, 0), max_wait_ms=0))
    single.now_ms += 5
    response = single.request(messages.DescribeQuorumRequest(), messages.DescribeQuorumResponse)
    assert (response.leader_id, response.leader_epoch, response.high_watermark) == (1, 1, 3)
    assert [(one.replica.node_id, one.log_end_offset, one.last_fetch_ms) for one in response.voters] == [
        (1, 3, single.now_ms),
        (2, 3, single.now_ms - 5),
        (3, -1, -1),
    ]
    assert [one.last_caught_up_ms for one in response.voters] == [single.now_ms, single.now_ms - 5, -1]
    assert [(one.replica, one.log_end_offset, one.last_caught_up_ms) for one in response.observers] == [
        (key_of(9), 0, -1)
    ]
    assert [node_id for node_id, _ in response.endpoints] == [1, 2, 3]


def test_expired_observers_are_removed() -> None:
    single = Single(voters=(1,))
    single.sync()
    single.receive(fetch_request(replica=9, max_wait_ms=0))
    single.now_ms += 299_999
    assert len(single.request(messages.DescribeQuorumRequest(), messages.DescribeQuorumResponse).observers) == 1
    single.now_ms += 1
    assert not single.request(messages.DescribeQuorumRequest(), messages.DescribeQuorumResponse).observers


def test_followers_do_not_describe_the_quorum() -> None:
    response = Single().request(messages.DescribeQuorumRequest(), messages.DescribeQuorumResponse)
    assert response.error is ErrorCode.not_leader_or_follower
