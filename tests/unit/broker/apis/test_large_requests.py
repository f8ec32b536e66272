"""Requests about thousands of partitions: the response is complete and in order, and other connections are served in
between."""

import asyncio
import random
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.server.context import RequestContext
from odradek.wire.apis import BROKER_APIS, load_handler
from odradek.wire.schemas import schema
from tests import raw_wire
from tests.apis import Api
from tests.unit.broker.fake_broker import FakeBroker

MANY = 3000
UNKNOWN = ErrorCode.unknown_topic_or_partition


def handle(broker: FakeBroker, api: Api, version: int, **fields: Any) -> tuple[Any, int]:
    """The response, and how often other tasks could run meanwhile."""
    messages = schema(api, version)
    context = RequestContext(api, version, "test", "PLAINTEXT", "127.0.0.1", messages)

    async def scenario() -> tuple[Any, int]:
        turns = 0
        response = load_handler(BROKER_APIS[api]).handle(raw_wire.build(messages.request_type, fields), context, broker)
        handling = asyncio.ensure_future(response)
        while not handling.done():
            turns += 1
            await asyncio.sleep(0)
        return handling.result(), turns

    return asyncio.run(scenario())


@pytest.mark.parametrize(("topics", "partitions"), [(MANY, 1), (1, MANY)])
@pytest.mark.parametrize(
    ("api", "version", "topic_field", "array_field", "is_number"),
    [
        (Api.LIST_OFFSETS, 7, "name", "partitions", False),
        (Api.OFFSET_FOR_LEADER_EPOCH, 4, "topic", "partitions", False),
        (Api.DESCRIBE_PRODUCERS, 0, "name", "partition_indexes", True),
    ],
)
def test_each_partition_is_described_in_order(
    broker: FakeBroker,
    api: Api,
    version: int,
    topic_field: str,
    array_field: str,
    is_number: bool,
    topics: int,
    partitions: int,
) -> None:
    indexes = range(partitions)
    array = list(indexes) if is_number else [{"partition_index": one, "partition": one} for one in indexes]
    named = [{topic_field: f"topic-{number}", array_field: array} for number in range(topics)]
    response, turns = handle(broker, api, version, topics=named, replica_id=-1)
    assert [getattr(topic, topic_field) for topic in response.topics] == [one[topic_field] for one in named]
    numbers = [[getattr(one, "partition_index", None) for one in topic.partitions] for topic in response.topics]
    if api is not Api.OFFSET_FOR_LEADER_EPOCH:
        assert numbers == [list(indexes)] * topics
    assert {one.error_code for topic in response.topics for one in topic.partitions} == {UNKNOWN}
    assert turns > MANY / 500


def test_pages_of_all_topics_are_sorted(broker: FakeBroker) -> None:
    names = [f"topic-{number}" for number in range(MANY)]
    random.Random(3).shuffle(names)
    for name in names:
        broker.add_topic(name, held=False)
    seen: list[str] = []
    cursor = None
    while True:
        response, turns = handle(
            broker, Api.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=1000, cursor=cursor
        )
        assert turns > 1
        seen += [topic.name for topic in response.topics]
        if response.next_cursor is None:
            break
        cursor = {"topic_name": response.next_cursor.topic_name, "partition_index": 0}
    assert seen == sorted(names)


def test_page_of_requested_topics_has_the_unknown_ones_up_to_its_last(broker: FakeBroker) -> None:
    """Unknown topics do not count towards the limit."""
    names = [f"topic-{number:05}" for number in range(2 * MANY)]
    for name in names[::2]:
        broker.add_topic(name, held=False)
    requested = [{"name": name} for name in random.Random(3).sample(names, len(names))]
    response, _ = handle(broker, Api.DESCRIBE_TOPIC_PARTITIONS, 0, topics=requested, response_partition_limit=1000)
    # The page ends after a thousand known topics, before the unknown one that follows.
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        (name, ErrorCode.none if number % 2 == 0 else UNKNOWN) for number, name in enumerate(names[:1999])
    ]
    assert response.next_cursor.topic_name == names[1999]


def test_log_dirs_of_many_topics(broker: FakeBroker) -> None:
    held = [f"topic-{number}" for number in range(5)]
    for name in held:
        broker.add_topic(name)
    requested = [{"topic": f"topic-{number}", "partitions": [0]} for number in range(MANY)]
    response, turns = handle(broker, Api.DESCRIBE_LOG_DIRS, 4, topics=requested)
    assert sorted(topic.name for result in response.results for topic in result.topics) == held
    assert turns > 1
