"""Finds the offset up to which the quorum leader has committed the metadata log.

Kafka's responses do not contain the offset of a metadata change, but the change is committed when they arrive: it is
below the high watermark that the leader reports afterwards.
"""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.quorum.wire.parts import only_partition, request_topics
from odradek.server.peer import Peer
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

VERSION: Final = 0


async def find_committed_offset(leader: Peer, *, timeout_seconds: float) -> int | None:
    """None: the node behind `leader` does not lead the quorum any more. Raises PeerError."""
    response = await leader.request(
        ApiKey.DESCRIBE_QUORUM, _build_request, timeout_seconds=timeout_seconds, highest=VERSION
    )
    partition = only_partition(response.topics)
    if partition is None or partition.error_code is not ErrorCode.none:
        return None
    high_watermark: int = partition.high_watermark
    return high_watermark - 1


def _build_request(chosen: Schema) -> Message:
    return chosen.new("DescribeQuorumRequest", topics=request_topics(chosen))
