"""The Metadata response written by hand agrees with kio in every version."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode
from odradek.wire.metadata_codec import MetadataBroker, MetadataPartition, MetadataTopic, write_metadata_response
from odradek.wire.schemas import schema

METADATA = 3

numbers = st.integers(-(2**31), 2**31 - 1)
texts = st.text(max_size=30)
ids = st.lists(numbers, max_size=4).map(tuple)
errors = st.sampled_from([ErrorCode.none, ErrorCode.unknown_server_error, ErrorCode.leader_not_available])
brokers = st.builds(MetadataBroker, numbers, texts, numbers, st.none() | texts)
partitions = st.builds(MetadataPartition, errors, numbers, numbers, numbers, ids, ids, ids)
topics = st.builds(
    MetadataTopic,
    errors,
    texts,
    st.none() | st.uuids().filter(lambda one: one.int != 0),
    st.booleans(),
    st.lists(partitions, max_size=3),
    numbers,
)


def with_kio(
    version: int,
    brokers: list[MetadataBroker],
    cluster_id: str | None,
    controller_id: int,
    topics: list[MetadataTopic],
    operations: int,
    error: ErrorCode,
) -> bytes:
    new = schema(METADATA, version).new
    return schema(METADATA, version).write(
        new(
            "MetadataResponse",
            throttle_time=timedelta(0),
            brokers=tuple(new("MetadataResponseBroker", **one._asdict()) for one in brokers),
            cluster_id=cluster_id,
            controller_id=controller_id,
            topics=tuple(
                new(
                    "MetadataResponseTopic",
                    error_code=topic.error,
                    name=topic.name,
                    topic_id=topic.topic_id,
                    is_internal=topic.is_internal,
                    partitions=tuple(
                        new(
                            "MetadataResponsePartition",
                            error_code=one.error,
                            partition_index=one.partition,
                            leader_id=one.leader_id,
                            leader_epoch=one.leader_epoch,
                            replica_nodes=one.replicas,
                            isr_nodes=one.isr,
                            offline_replicas=one.offline_replicas,
                        )
                        for one in topic.partitions
                    ),
                    topic_authorized_operations=topic.operations,
                )
                for topic in topics
            ),
            cluster_authorized_operations=operations,
            error_code=error,
        )
    )


@settings(max_examples=150)
@given(
    st.integers(0, 13),
    st.lists(brokers, max_size=3),
    st.none() | texts,
    numbers,
    st.lists(topics, max_size=3),
    numbers,
    errors,
)
def test_metadata_response_in_every_version_is_what_kio_encodes(
    version: int,
    brokers: list[MetadataBroker],
    cluster_id: str | None,
    controller_id: int,
    topics: list[MetadataTopic],
    operations: int,
    error: ErrorCode,
) -> None:
    written = write_metadata_response(
        version,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_operations=operations,
        error=error,
    )
    assert written == with_kio(version, brokers, cluster_id, controller_id, topics, operations, error)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_response_for_a_topic_without_a_name(version: int) -> None:
    topic = MetadataTopic(ErrorCode.unknown_topic_id, None, UUID(int=5), False, (), 0)
    written = write_metadata_response(
        version,
        brokers=(),
        cluster_id=None,
        controller_id=-1,
        topics=[topic],
        cluster_operations=0,
        error=ErrorCode.none,
    )
    assert written == with_kio(version, [], None, -1, [topic], 0, ErrorCode.none)
