"""Builds a Fetch request without a fetch session."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.client.connection import milliseconds
from odradek.wire.schemas import Message, Schema

_NO_SESSION_EPOCH: Final = -1


def fetch_request(
    chosen: Schema,
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, UUID | None],
    *,
    wait_ms: int,
    bytes_max: int,
    partition_bytes_max: int,
    read_committed: bool,
) -> Message:
    """The response fills partitions in the given order until `bytes_max` is reached."""
    by_topic: dict[str, list[Message]] = {}
    for partition, position in positions.items():
        by_topic.setdefault(partition.topic, []).append(
            chosen.new(
                "FetchPartition",
                partition=partition.partition,
                current_leader_epoch=-1,
                fetch_offset=position,
                log_start_offset=-1,
                partition_max_bytes=partition_bytes_max,
            )
        )
    return chosen.new(
        "FetchRequest",
        replica_id=-1,
        max_wait=milliseconds(wait_ms),
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=int(read_committed),
        session_id=0,
        session_epoch=_NO_SESSION_EPOCH,
        topics=tuple(
            chosen.new("FetchTopic", topic=name, topic_id=topic_ids[name], partitions=tuple(wanted))
            for name, wanted in by_topic.items()
        ),
        forgotten_topics_data=(),
        rack_id="",
    )
