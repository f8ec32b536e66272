"""DeleteRecords, versions 0 to 2: advances the log start offset. Retention deletes the segments below it.

The response is sent once every live replica has advanced.
"""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.broker.apis.authorization import AllowedTopics, allowed_topics
from odradek.broker.apis.hosted_partition import find_partition, is_known
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.topic_names import INTERNAL_TOPICS
from odradek.core.security.resources import Operation
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

_UP_TO_HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


class _Outcome(NamedTuple):
    error: ErrorCode
    low_watermark: int = _NO_LOW_WATERMARK


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Awaitable[Message]:
    # The last offset of a duplicate partition applies.
    requested = {(topic.name, one.partition_index): one.offset for topic in request.topics for one in topic.partitions}
    return _delete(requested, request.timeout.total_seconds(), context, broker)


async def _delete(
    requested: dict[tuple[str, int], int], timeout_seconds: float, context: RequestContext, broker: BrokerPort
) -> Message:
    allowed = allowed_topics(context.access, Operation.DELETE)
    outcomes = await asyncio.gather(
        *(_delete_in(*key, offset, timeout_seconds, allowed, broker) for key, offset in requested.items())
    )
    topics: dict[str, list[Message]] = {}
    for (topic, index), outcome in zip(requested, outcomes, strict=True):
        topics.setdefault(topic, []).append(
            context.new(
                "DeleteRecordsPartitionResult",
                partition_index=index,
                low_watermark=outcome.low_watermark,
                error_code=outcome.error,
            )
        )
    return context.new(
        "DeleteRecordsResponse",
        throttle_time=timedelta(0),
        topics=tuple(
            context.new("DeleteRecordsTopicResult", name=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )


async def _delete_in(
    topic: str, index: int, offset: int, timeout_seconds: float, allowed: AllowedTopics | None, broker: BrokerPort
) -> _Outcome:
    if allowed is not None and topic not in allowed:
        return _Outcome(ErrorCode.topic_authorization_failed)
    if topic in INTERNAL_TOPICS and is_known(topic, index, broker):
        return _Outcome(ErrorCode.invalid_topic_exception)
    try:
        partition = find_partition(topic, index, broker)
        partition.check_leader()
        log = partition.log
        if log.config.compact and not log.config.delete:
            raise KafkaError(ErrorCode.policy_violation)
        target = partition.high_watermark if offset == _UP_TO_HIGH_WATERMARK else offset
        if not 0 <= target <= partition.high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range)
        await partition.run_exclusively(lambda: partition.log.advance_log_start(target))
        async with asyncio.timeout(max(0.0, timeout_seconds)):
            return _Outcome(ErrorCode.none, await partition.wait_for_deletion(target))
    except TimeoutError:
        return _Outcome(ErrorCode.request_timed_out, partition.low_watermark)
    except KafkaError as error:
        return _Outcome(error.code)
    except OSError as error:
        broker.fail_log_dir(partition.log_dir, error)
        return _Outcome(ErrorCode.kafka_storage_error)
