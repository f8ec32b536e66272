"""Fetch by consumers and followers that may not read every partition, with and without sessions and waiting."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.errors import ErrorCode
from odradek.broker.fetch_sessions import FetchSessions
from odradek.core.replication.leader import LeaderState
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.records.batch import parse_batches
from odradek.server.context import RequestContext
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.record_batches import TestRecord
from tests.unit.broker.fake_broker import NODE_ID, FakeBroker, with_followers
from tests.unit.fake_access import FakeAccess, Grant

FETCH, BY_ID = 1, 13
NONE, DENIED = ErrorCode.none, ErrorCode.topic_authorization_failed
CLUSTER_ACTION: Grant = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)


def read(topic: str) -> Grant:
    return Operation.READ, ResourceType.TOPIC, topic


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    """Topics orders and secret with one record each, and the empty topic idle."""
    broker = FakeBroker(tmp_path)
    broker.fetch_sessions = FetchSessions(10, broker.clock, broker.random)  # type: ignore[attr-defined]
    broker.send_isr_proposal = lambda partition: None  # type: ignore[attr-defined]
    for name in ("orders", "secret", "idle"):
        broker.add_topic(name)
    for name in ("orders", "secret"):
        broker.append(name, TestRecord(name.encode()))
    return broker


def start(broker: FakeBroker, version: int, *topics: str | UUID, **fields: Any) -> Any:
    messages = schema(FETCH, version)
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    requested = []
    for one in topics:
        known = None if isinstance(one, UUID) else broker.image.topics_by_name.get(one)
        topic_id = one if known is None else known.id
        named = {"topic": one} if version < BY_ID else {"topic_id": topic_id}
        requested.append(named | {"partitions": [wanted]})
    defaults = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    request = raw_wire.build(messages.request_type, defaults | fields | {"topics": requested})
    context = RequestContext(
        FETCH,
        version,
        "test",
        "PLAINTEXT",
        "127.0.0.1",
        messages,
        access=broker.access_of(None, ""),  # type: ignore[arg-type]
    )
    return load_handler(BROKER_APIS[FETCH]).handle(request, context, broker)


def parse(broker: FakeBroker, version: int, parts: Any) -> Any:
    response, _ = schema(FETCH, version).read_response(b"".join(parts), 0)
    return response


def found(broker: FakeBroker, version: int, parts: Any) -> list[tuple[str | UUID, ErrorCode, int]]:
    """Of each partition: the topic, the error and the number of batches."""
    names = {topic.id: name for name, topic in broker.image.topics_by_name.items()}
    return [
        (
            topic.topic if version < BY_ID else names.get(topic.topic_id, topic.topic_id),
            one.error_code,
            len(parse_batches(bytes(one.records or b""))),
        )
        for topic in parse(broker, version, parts).responses
        for one in topic.partitions
    ]


def fetch(broker: FakeBroker, version: int, *topics: str | UUID, **fields: Any) -> list[tuple[Any, ErrorCode, int]]:
    return found(broker, version, start(broker, version, *topics, **fields))


@pytest.mark.parametrize("version", [4, 12, 18])
def test_consumer_reads_only_allowed_topics(broker: FakeBroker, version: int) -> None:
    access = FakeAccess(read("orders"))
    broker.access = access
    assert fetch(broker, version, "secret", "orders") == [("orders", NONE, 1), ("secret", DENIED, 0)]
    assert access.logged_denials() == [read("secret")]


@pytest.mark.parametrize("version", [4, 12, 18])
def test_denied_partition_has_no_offsets(broker: FakeBroker, version: int) -> None:
    broker.access = FakeAccess()
    (topic,) = parse(broker, version, start(broker, version, "secret")).responses
    (one,) = topic.partitions
    assert (one.error_code, one.high_watermark, one.last_stable_offset, one.records) == (DENIED, -1, -1, b"")


def test_each_topic_is_checked_once_per_fetch(broker: FakeBroker) -> None:
    access = FakeAccess(read("orders"))
    broker.access = access
    broker.add_topic("wide", 20)
    wanted = [{"partition": index, "partition_max_bytes": 100} for index in range(20)]
    messages = schema(FETCH, 12)
    request = raw_wire.build(
        messages.request_type, {"replica_id": -1, "topics": [{"topic": "wide", "partitions": wanted}]}
    )
    context = RequestContext(FETCH, 12, "test", "PLAINTEXT", "127.0.0.1", messages, access=access)
    load_handler(BROKER_APIS[FETCH]).handle(request, context, broker)
    assert len(access.requests) == 1


@pytest.mark.parametrize(("topic", "allowed"), [("secret", False), ("gone", False), ("gone", True)])
def test_denied_topic_looks_like_a_missing_one(broker: FakeBroker, topic: str, allowed: bool) -> None:
    broker.access = FakeAccess(*[read(topic)] * allowed)
    error = ErrorCode.unknown_topic_or_partition if allowed else DENIED
    assert fetch(broker, 12, topic, max_wait=60_000) == [(topic, error, 0)]


def test_unknown_topic_id_is_not_checked(broker: FakeBroker) -> None:
    access = FakeAccess()
    broker.access = access
    gone = UUID(int=77)
    assert fetch(broker, 18, gone) == [(gone, ErrorCode.unknown_topic_id, 0)]
    assert access.requests == []


@pytest.mark.parametrize("version", [12, 18])
def test_fetch_of_denied_partitions_does_not_wait(broker: FakeBroker, version: int) -> None:
    broker.access = FakeAccess()
    assert fetch(broker, version, "idle", "secret", max_wait=60_000) == [("idle", DENIED, 0), ("secret", DENIED, 0)]


@pytest.mark.parametrize("version", [12, 18])
def test_fetch_waits_for_its_allowed_partition(broker: FakeBroker, version: int) -> None:
    """Records of the denied partition do not wake it."""
    broker.access = FakeAccess(read("idle"))

    async def scenario() -> None:
        poll = start(broker, version, "secret", "idle", max_wait=60_000)
        assert isinstance(poll, DeferredResponse)
        broker.append("secret", TestRecord(b"more"))
        assert not poll.is_done
        broker.append("idle", TestRecord(b"first"))
        assert poll.is_done
        assert found(broker, version, poll.result) == [("idle", NONE, 1), ("secret", DENIED, 0)]

    asyncio.run(scenario())


# ---- sessions


@pytest.mark.parametrize("version", [12, 18])
def test_permissions_are_checked_with_every_fetch_of_a_session(broker: FakeBroker, version: int) -> None:
    access = FakeAccess(read("orders"), read("secret"))
    broker.access = access
    response = parse(broker, version, start(broker, version, "orders", "secret", session_epoch=0))
    session = {"session_id": response.session_id}
    assert response.session_id
    access.allowed.remove(read("secret"))
    for epoch in (1, 2):
        assert fetch(broker, version, session_epoch=epoch, **session) == [("orders", NONE, 1), ("secret", DENIED, 0)]
    access.allow([read("secret")])
    again = fetch(broker, version, session_epoch=3, **session)
    assert sorted(again) == [("orders", NONE, 1), ("secret", NONE, 1)]


@pytest.mark.parametrize("version", [12, 18])
def test_denied_partitions_stay_in_their_session(broker: FakeBroker, version: int) -> None:
    access = FakeAccess()
    broker.access = access
    response = parse(broker, version, start(broker, version, "secret", session_epoch=0))
    assert fetch(broker, version, session_id=response.session_id, session_epoch=1) == [("secret", DENIED, 0)]
    access.allow([read("secret")])
    assert fetch(broker, version, session_id=response.session_id, session_epoch=2) == [("secret", NONE, 1)]


# ---- followers


@pytest.fixture
def state(broker: FakeBroker) -> LeaderState:
    """Of topic led, with two followers and one record."""
    broker.add_topic("led")
    partition = broker.partition("led", 0)
    assert partition is not None
    state = with_followers(partition, 1, min_isr=1)
    partition.become_leader(NODE_ID, 1, state)
    broker.append("led", TestRecord())
    return state


FOLLOWER = {"replica_id": 2, "replica_state": {"replica_id": 2, "replica_epoch": 1}}


@pytest.mark.parametrize("version", [12, 18])
def test_follower_needs_cluster_action_and_no_topic_permission(
    broker: FakeBroker, state: LeaderState, version: int
) -> None:
    access = FakeAccess(CLUSTER_ACTION)
    broker.access = access
    assert fetch(broker, version, "led", **FOLLOWER) == [("led", NONE, 1)]
    assert [one[:3] for one in access.requests] == [CLUSTER_ACTION]
    assert state.followers[2].end_offset == 0


@pytest.mark.parametrize("version", [12, 18])
def test_denied_follower_reads_nothing_and_acknowledges_nothing(
    broker: FakeBroker, state: LeaderState, version: int
) -> None:
    broker.access = FakeAccess(read("led"), read("secret"))
    before = state.followers[2].end_offset
    gone: Any = UUID(int=77) if version >= BY_ID else "gone"
    found = fetch(broker, version, "led", "secret", gone, **FOLLOWER, max_wait=60_000)
    assert found == [("led", DENIED, 0), ("secret", DENIED, 0), (gone, DENIED, 0)]
    assert state.followers[2].end_offset == before != 0
