"""Client quotas as operators set and see them."""

import pytest

from tests.kafka.apache_kafka import KafkaTools, ToolFailed


def test_kafka_configs_sets_describes_and_removes_quotas(tools: KafkaTools) -> None:
    of_user = ("--entity-type", "users", "--entity-name", "alice")
    of_client = ("--entity-type", "clients", "--entity-name", "reports")
    of_default_ip = ("--entity-type", "ips", "--entity-default")
    tools.configs("--alter", *of_client, "--add-config", "producer_byte_rate=1048576,request_percentage=12.5")
    tools.configs("--alter", *of_user, *of_client, "--add-config", "consumer_byte_rate=2048")
    tools.configs("--alter", *of_default_ip, "--add-config", "connection_creation_rate=10000")
    described = tools.configs("--describe", *of_client)
    assert "Quota configs for client-id 'reports' are" in described
    assert "producer_byte_rate=1048576.0" in described
    assert "request_percentage=12.5" in described
    assert "consumer_byte_rate" not in described
    assert "consumer_byte_rate=2048.0" in tools.configs("--describe", *of_user, *of_client)
    assert "connection_creation_rate=10000.0" in tools.configs("--describe", *of_default_ip)
    with pytest.raises(ToolFailed, match="InvalidRequestException: Quota producer_byte_rate must be greater than 0"):
        tools.configs("--alter", *of_client, "--add-config", "producer_byte_rate=0")
    tools.configs("--alter", *of_client, "--delete-config", "producer_byte_rate,request_percentage")
    tools.configs("--alter", *of_user, *of_client, "--delete-config", "consumer_byte_rate")
    tools.configs("--alter", *of_default_ip, "--delete-config", "connection_creation_rate")
    assert "producer_byte_rate" not in tools.configs("--describe", *of_client)
