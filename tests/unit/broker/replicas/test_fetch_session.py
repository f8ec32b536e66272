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


def test_failed_fetch_starts_a_new_session() -> None:
    session = FollowerSession()
    session.next({A: position(0)}, (A, B))
    session.on_response(77)
    session.next({A: position(10)}, (A, B))
    session.reset()
    request = session.next({A: position(10)}, (A, B))
    assert (request.session_id, request.session_epoch, request.changed) == (0, 0, {A: position(10)})


def test_leader_without_session_gets_all_partitions() -> None:
    session = FollowerSession()
    for _ in range(2):
        request = session.next({A: position(0)}, (A, B))
        assert (request.session_id, request.session_epoch, request.changed) == (0, 0, {A: position(0)})
        session.on_response(0)


def test_session_epoch_wraps_to_one() -> None:
    session = FollowerSession()
    session.next({A: position(0)}, (A, B))
    session.on_response(77)
    session._epoch = (1 << 31) - 1
    session.next({A: position(1)}, (A, B))
    session.on_response(77)
    assert session.next({A: position(2)}, (A, B)).session_epoch == 1
