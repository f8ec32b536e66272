"""A waiting Fetch misses no append: neither before the wait begins nor during a read in a thread."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from odradek.base.deferred import DeferredResponse
from odradek.base.ports import Pool
from odradek.broker.fetch_sessions import FetchSessions
from odradek.server.context import RequestContext
from odradek.storage.log.partition_log import PartitionLog
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.record_batches import TestRecord, parse_batches
from tests.unit.broker.fake_broker import FakeBroker

T = TypeVar("T")
FETCH, VERSION = 1, 12
BY_ID = 13
LONG_MS = 60_000


def begin_fetch(broker: FakeBroker, *, min_bytes: int = 1, version: int = VERSION) -> Coroutine[Any, Any, Any]:
    return start_fetch(broker, min_bytes=min_bytes, version=version).wait()


def start_fetch(broker: FakeBroker, *, min_bytes: int = 1, version: int = VERSION) -> DeferredResponse:
    """The deferred response for a Fetch at the log end, before it waits."""
    broker.fetch_sessions = FetchSessions(10, broker.clock, broker.random)  # type: ignore[attr-defined]
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fields = {
        "max_wait": LONG_MS,
        "min_bytes": min_bytes,
        "max_bytes": 1 << 20,
        "session_epoch": 0,
        "topics": [{"topic": "orders", "partitions": [wanted]}],
    }
    if version >= BY_ID:
        topic_id = broker.image.topics_by_name["orders"].id
        fields["topics"] = [{"topic_id": topic_id, "partitions": [wanted]}]
    messages = schema(FETCH, version)
    context = RequestContext(FETCH, version, "test", "PLAINTEXT", "127.0.0.1", messages)
    response = load_handler(BROKER_APIS[FETCH]).handle(raw_wire.build(messages.request_type, fields), context, broker)
    assert isinstance(response, DeferredResponse)
    return response


def values(parts: list[bytes]) -> int:
    """The number of batches in the response."""
    response, _ = schema(FETCH, VERSION).read_response(b"".join(parts), 0)
    return len(parse_batches(bytes(response.responses[0].partitions[0].records)))


def test_append_before_the_wait_begins_is_returned(broker: FakeBroker) -> None:
    async def scenario() -> None:
        poll = begin_fetch(broker)
        broker.append("orders", TestRecord())
        assert values(await asyncio.wait_for(poll, 20)) == 1

    broker.add_topic("orders")
    asyncio.run(scenario())


def test_append_during_a_threaded_read_is_returned(broker: FakeBroker, monkeypatch: Any) -> None:
    class Threads:
        """A record is appended between the threaded read and its completion on the event loop."""

        async def run(self, work: Callable[[], T], *, pool: Pool = Pool.BACKGROUND, lane: str | None = None) -> T:
            result = work()
            monkeypatch.undo()
            broker.append("orders", TestRecord())
            return result

    async def scenario() -> None:
        # The first search finds nothing in the page cache.
        monkeypatch.setattr(PartitionLog, "find_cached_batches", lambda *_, **__: None)
        poll = begin_fetch(broker)
        broker.executor = Threads()
        assert values(await asyncio.wait_for(poll, 20)) == 1

    broker.add_topic("orders")
    asyncio.run(scenario())


def test_fetch_waits_again_after_too_few_bytes(broker: FakeBroker) -> None:
    async def scenario() -> None:
        poll = asyncio.ensure_future(begin_fetch(broker, min_bytes=150))
        broker.append("orders", TestRecord())
        await asyncio.sleep(0.05)
        assert not poll.done()
        broker.append("orders", TestRecord(b"x" * 100))
        began = time.monotonic()
        assert values(await asyncio.wait_for(poll, 20)) == 2
        assert time.monotonic() - began < 20

    broker.add_topic("orders")
    asyncio.run(scenario())


def test_cancelled_long_poll_watches_no_partition(broker: FakeBroker) -> None:
    async def scenario() -> None:
        partition = broker.partition("orders", 0)
        assert partition is not None
        poll = asyncio.ensure_future(begin_fetch(broker))
        await asyncio.sleep(0)
        assert len(partition.watchers) == 1
        poll.cancel()
        await asyncio.wait([poll])
        assert not partition.watchers
        deferred = start_fetch(broker)
        assert len(partition.watchers) == 1
        deferred.cancel()
        assert not partition.watchers

    broker.add_topic("orders")
    asyncio.run(scenario())


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_waiting_fetch_gets_the_same_bytes_as_a_read(broker: FakeBroker, version: int) -> None:
    async def scenario() -> None:
        partition = broker.partition("orders", 0)
        assert partition is not None
        waiting = asyncio.ensure_future(begin_fetch(broker, version=version))
        await asyncio.sleep(0)
        broker.append("orders", TestRecord(b"fresh"))
        data = b"".join(await asyncio.wait_for(waiting, 20))
        in_the_file = partition.log.read(0, 1 << 20, end_offset_exclusive=1).data
        assert in_the_file in data
        response, size = schema(FETCH, version).read_response(data, 0)
        assert size == len(data)
        (fetched,) = response.responses[0].partitions
        assert (fetched.high_watermark, fetched.last_stable_offset, fetched.records) == (1, 1, in_the_file)
        for session in broker.fetch_sessions:
            (target,) = session.targets.values()
            assert (target.sent_high_watermark, target.sent_log_start_offset) == (1, 0)
        assert partition.fresh is None

    broker.add_topic("orders")
    asyncio.run(scenario())
