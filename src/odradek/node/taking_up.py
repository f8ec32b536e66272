"""Waiting until this node has taken up what the active controller decided elsewhere.

A client that was told that its topic is there is to find it there, at the broker that told it. Kafka's answers do not
say at which offset a decision stands, but it is committed when they come: it is below the high watermark that the
leader names if it is asked afterwards.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.quorum.wire import DESCRIBE_QUORUM
from odradek.quorum.wire.parts import only_partition, request_topics
from odradek.server.peer import Peer, PeerError
from odradek.wire.schemas import Message, Schema

logger = logging.getLogger(__name__)

VERSION: Final = 0
SECONDS_MAX: Final = 1.0
"""The answer is true all the same, and this node will know before long."""


async def take_up(peer: Peer, reached: Callable[[int], Awaitable[None]]) -> None:
    """Returns once everything that the leader behind this peer has committed so far is taken up here, or after a while.

    `reached` waits for an offset.
    """
    try:
        async with asyncio.timeout(SECONDS_MAX):
            response = await peer.request(DESCRIBE_QUORUM, _request, timeout_seconds=SECONDS_MAX, highest=VERSION)
            high_watermark = _high_watermark(response)
            if high_watermark is not None:
                await reached(high_watermark - 1)
    except (TimeoutError, PeerError) as error:
        logger.debug("not known to be taken up here: %s", error)


def _request(chosen: Schema) -> Message:
    return chosen.new("DescribeQuorumRequest", topics=request_topics(chosen))


def _high_watermark(response: Message) -> int | None:
    partition = only_partition(response.topics)
    if partition is None or partition.error_code is not ErrorCode.none:
        return None
    high_watermark: int = partition.high_watermark
    return high_watermark
