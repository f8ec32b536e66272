"""Admin requests: an unknown topic is not retried."""

import time

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import METADATA, ScriptedBroker


def test_deleting_an_unknown_topic_is_not_retried() -> None:
    """If the response to a deletion is lost, the second request finds no topic."""

    def nothing_there(request: Message, chosen: Schema) -> Message:
        result = chosen.new(
            "DeletableTopicResult",
            name=request.topics[0].name,
            topic_id=None,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=None,
        )
        return chosen.new("DeleteTopicsResponse", throttle_time=milliseconds(0), responses=(result,))

    with ScriptedBroker(
        {ApiKey.DELETE_TOPICS: nothing_there}, {METADATA: (0, 12), ApiKey.DELETE_TOPICS: (1, 6)}
    ) as broker:
        broker.handlers[METADATA] = broker.metadata({})
        with Cluster([broker.address], timeout_s=60.0) as cluster:
            began_at = time.monotonic()
            with pytest.raises(KafkaError) as refused:
                Admin(cluster).delete_topic("gone")
    assert refused.value.code is ErrorCode.unknown_topic_or_partition
    assert time.monotonic() - began_at < 20.0
