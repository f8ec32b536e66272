"""Changes asked for over the wire: what the controller says of a topic that is not there is the last word."""

import time

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import METADATA, ScriptedBroker


def test_a_topic_that_is_gone_is_not_waited_for() -> None:
    """The answer to a deletion may be lost with a node, and the second request finds nothing to delete."""

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
        broker.answers[METADATA] = broker.metadata({})
        with Cluster([broker.address], timeout_s=60.0) as cluster:
            began_at = time.monotonic()
            with pytest.raises(KafkaError) as refused:
                Admin(cluster).delete_topic("gone")
    assert refused.value.code is ErrorCode.unknown_topic_or_partition
    assert time.monotonic() - began_at < 20.0
