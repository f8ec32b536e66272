import pytest

from odradek.base.errors import ErrorCode
from tests.unit.broker.fake_broker import FakeBroker, broker_image

LIST_CONFIG_RESOURCES = 74
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def list_resources(broker: FakeBroker, *kinds: int) -> tuple[ErrorCode, list[tuple[int, str]]]:
    response = broker.request(LIST_CONFIG_RESOURCES, 1, resource_types=kinds)
    return response.error_code, [(one.resource_type, one.resource_name) for one in response.config_resources]


@pytest.fixture
def furnished(broker: FakeBroker) -> FakeBroker:
    broker.add_topic("t")
    broker.set_brokers(broker_image(1), broker_image(2, fenced=True))
    broker.set_configs(GROUP, "g", {"consumer.session.timeout.ms": "46000"})
    broker.set_configs(CLIENT_METRICS, "sub", {"interval.ms": "100000"})
    broker.set_configs(TOPIC, "t", {"retention.ms": "1"})
    return broker


def test_list_all_config_resources(furnished: FakeBroker) -> None:
    assert list_resources(furnished) == (
        ErrorCode.none,
        [
            (GROUP, "g"),
            (CLIENT_METRICS, "sub"),
            (BROKER_LOGGER, "1"),
            (BROKER_LOGGER, "2"),
            (BROKER, "1"),
            (BROKER, "2"),
            (TOPIC, "t"),
        ],
    )


def test_list_config_resources_by_type(furnished: FakeBroker) -> None:
    assert list_resources(furnished, TOPIC, GROUP) == (ErrorCode.none, [(GROUP, "g"), (TOPIC, "t")])


@pytest.mark.parametrize("kinds", [(0,), (64,), (TOPIC, 64)])
def test_unknown_resource_types_are_rejected(furnished: FakeBroker, kinds: tuple[int, ...]) -> None:
    assert list_resources(furnished, *kinds) == (ErrorCode.unsupported_version, [])


def test_version_0_lists_client_metrics_only(furnished: FakeBroker) -> None:
    response = furnished.request(LIST_CONFIG_RESOURCES, 0)
    assert [one.resource_name for one in response.config_resources] == ["sub"]
