from uuid import UUID

from odradek.broker.replicas.fetch_session import FollowerSession, PartitionId
from odradek.core.replication.follower import FetchPosition

A, B = PartitionId(UUID(int=1), 0), PartitionId(UUID(int=1), 1)


def position(offset: int) -> FetchPosition:
    return FetchPosition(leader_epoch=3, fetch_offset=offset, last_fetched_epoch=2, log_start_offset=0)


def test_first_fetch_contains_all_partitions() -> None:
    request = FollowerSession().next({A: position(0), B: position(5)}, (A, B))
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert request.changed == {A: position(0), B: position(5)}
    assert request.forgotten == []


def test_incremental_fetch_contains_changed_and_forgotten_partitions() -> None:
    session = FollowerSession()
    session.next({A: position(0), B: position(5)}, (A, B))
    session.on_response(77)
    request = session.next({A: position(10), B: position(5)}, (A, B))
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert request.changed == {A: position(10)}
    session.on_response(77)
    request = session.next({A: position(10)}, (A, B))
    assert (request.changed, request.forgotten, request.session_epoch) == ({}, [B], 2)
    session.on_response(77)
    request = session.next({A: position(10), B: position(5)}, (A, B))
    assert (request.changed, request.forgotten) == ({B: position(5)}, [])


def test_failed_fetch_closes_the_session_and_starts_a_new_one() -> None:
    session = FollowerSession()
    session.next({A: position(0)}, (A, B))
    session.on_response(77)
    session.next({A: position(10)}, (A, B))
    session.restart()
    request = session.next({A: position(10)}, ())
    assert (request.session_id, request.session_epoch, request.changed) == (77, 0, {A: position(10)})
    session.on_response(78)
    request = session.next({A: position(11)}, (A,))
    assert (request.session_id, request.session_epoch, request.changed) == (78, 1, {A: position(11)})


def test_unknown_session_is_not_closed() -> None:
    session = FollowerSession()
    session.next({A: position(0)}, (A,))
    session.on_response(77)
    session.on_session_not_found()
    request = session.next({A: position(0)}, ())
    assert (request.session_id, request.session_epoch, request.changed) == (0, 0, {A: position(0)})


def test_leader_without_sessions_gets_all_partitions() -> None:
    """Also more than are added to a session at a time."""
    session = FollowerSession(added_max=1)
    positions = {A: position(0), B: position(5)}
    request = session.next(positions, (A, B))
    assert (request.session_id, request.session_epoch, list(request.changed)) == (0, 0, [A])
    session.on_response(0)
    for _ in range(2):
        request = session.next(positions, ())
        assert (request.session_id, request.session_epoch, request.changed) == (0, 0, positions)
        assert not request.has_more
        session.on_response(0)


def test_session_that_the_leader_closed_is_started_again() -> None:
    session = FollowerSession(added_max=1)
    positions = {A: position(0), B: position(5)}
    session.next(positions, (A, B))
    session.on_response(77)
    session.next(positions, ())
    session.on_response(0)
    request = session.next(positions, ())
    assert (request.session_id, request.session_epoch, list(request.changed), request.has_more) == (0, 0, [A], True)


MANY = [PartitionId(UUID(int=number), 0) for number in range(1, 8)]


class TestManyPartitions:
    def test_partitions_are_added_over_several_fetches(self) -> None:
        session = FollowerSession(added_max=3)
        positions = {key: position(0) for key in MANY}
        named: list[PartitionId] = []
        for fetch, (count, has_more) in enumerate([(3, True), (3, True), (1, False)]):
            request = session.next(positions, MANY if fetch == 0 else ())
            assert (len(request.changed), request.has_more, request.session_epoch) == (count, has_more, fetch)
            named += request.changed
            session.on_response(77)
        assert named == MANY
        assert session.next(positions, ()).changed == {}

    def test_changed_partitions_are_always_sent(self) -> None:
        """Otherwise the leader would send the same records again."""
        session = FollowerSession(added_max=3)
        positions = {key: position(0) for key in MANY}
        session.next(positions, MANY)
        session.on_response(77)
        positions |= {key: position(9) for key in MANY[:3]}
        request = session.next(positions, MANY[:3])
        assert list(request.changed) == MANY[:6]
        assert [one.fetch_offset for one in request.changed.values()] == [9, 9, 9, 0, 0, 0]

    def test_partition_that_waits_to_be_added_is_not_forgotten_at_the_leader(self) -> None:
        session = FollowerSession(added_max=3)
        positions = {key: position(0) for key in MANY}
        session.next(positions, MANY)
        session.on_response(77)
        del positions[MANY[4]]
        request = session.next(positions, (MANY[4],))
        assert (list(request.changed), request.forgotten) == ([MANY[3], *MANY[5:]], [])

    def test_position_that_changed_while_the_partition_waited_is_sent_once(self) -> None:
        session = FollowerSession(added_max=3)
        positions = {key: position(0) for key in MANY}
        session.next(positions, MANY)
        session.on_response(77)
        positions[MANY[6]] = position(4)
        session.next(positions, (MANY[6],))
        session.on_response(77)
        assert session.next(positions, ()).changed == {MANY[6]: position(4)}

    def test_restart_adds_all_partitions_again(self) -> None:
        session = FollowerSession(added_max=3)
        positions = {key: position(0) for key in MANY}
        session.next(positions, MANY)
        session.on_response(77)
        session.next(positions, ())
        session.restart()
        request = session.next(positions, ())
        assert (request.session_id, request.session_epoch, request.has_more) == (77, 0, True)
        assert list(request.changed) == MANY[:3]


def test_recreated_topic_replaces_the_old_partition() -> None:
    """The new topic has another ID, as in Kafka's session handler."""
    old, new = PartitionId(UUID(int=1), 0), PartitionId(UUID(int=2), 0)
    session = FollowerSession()
    session.next({old: position(5)}, (old,))
    session.on_response(77)
    request = session.next({new: position(0)}, (old, new))
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert (request.changed, request.forgotten) == ({new: position(0)}, [old])


def test_session_epoch_wraps_to_one() -> None:
    session = FollowerSession()
    session.next({A: position(0)}, (A, B))
    session.on_response(77)
    session._epoch = (1 << 31) - 1
    session.next({A: position(1)}, (A, B))
    session.on_response(77)
    assert session.next({A: position(2)}, (A, B)).session_epoch == 1
