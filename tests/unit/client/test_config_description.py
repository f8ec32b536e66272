import pytest

from odradek.base.errors import ErrorCode
from odradek.client.admin import ConfigSource, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.config_description import DescribedConfig, describe_configs, wait_until_applied
from odradek.client.connection import milliseconds
from odradek.client.errors import TimedOut
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.unit.client.scripted_broker import METADATA, Handler, ScriptedBroker, in_turn

ORDERS = Resource(ResourceType.TOPIC, "orders")
VERSIONS = {METADATA: (0, 12), ApiKey.DESCRIBE_CONFIGS: (1, 4)}


def retention(value: str) -> Handler:
    def handle(request: Message, chosen: Schema) -> Message:
        config = chosen.new(
            "DescribeConfigsResourceResult",
            name="retention.ms",
            value=value,
            read_only=False,
            config_source=int(ConfigSource.DYNAMIC_TOPIC_CONFIG),
            is_sensitive=False,
            synonyms=(),
            documentation=None,
        )
        result = chosen.new(
            "DescribeConfigsResult",
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=int(ORDERS.type),
            resource_name=ORDERS.name,
            configs=(config,),
        )
        return chosen.new("DescribeConfigsResponse", throttle_time=milliseconds(0), results=(result,))

    return handle


def is_new(config: DescribedConfig) -> bool:
    return config.value == "new"


def test_wait_until_applied_polls_all_brokers() -> None:
    handlers = in_turn([retention("old"), retention("old"), retention("new")])
    with ScriptedBroker({ApiKey.DESCRIBE_CONFIGS: handlers}, VERSIONS) as broker:
        broker.handlers[METADATA] = broker.metadata({})
        with Cluster([broker.address], timeout_s=60.0) as cluster:
            wait_until_applied(cluster, ORDERS, "retention.ms", is_new)
            assert [one.value for one in describe_configs(cluster, ORDERS)] == ["new"]
    requests = [request for request in broker.requests if hasattr(request, "resources")]
    assert [request.resources[0].configuration_keys for request in requests] == [("retention.ms",)] * 3 + [None]


def test_wait_until_applied_times_out() -> None:
    with ScriptedBroker({ApiKey.DESCRIBE_CONFIGS: retention("old")}, VERSIONS) as broker:
        broker.handlers[METADATA] = broker.metadata({})
        with (
            Cluster([broker.address], timeout_s=2.0) as cluster,
            pytest.raises(TimedOut, match="broker 1 has not applied it yet"),
        ):
            wait_until_applied(cluster, ORDERS, "retention.ms", is_new)
