from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from tests.unit.broker.fake_broker import CLUSTER_ID, FakeBroker, broker_image

DESCRIBE_CLUSTER = 60
NOT_REQUESTED = -(2**31)


def describe_cluster(broker: FakeBroker, version: int, **fields: Any) -> Any:
    defaults = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": False}
    return broker.request(DESCRIBE_CLUSTER, version, **(defaults | fields))


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(broker: FakeBroker, version: int) -> None:
    response = describe_cluster(broker, version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (ErrorCode.none, CLUSTER_ID, 1)
    assert [(one.broker_id, one.host, one.port, one.rack) for one in response.brokers] == [
        (1, "plaintext-1", 9001, "rack-1")
    ]
    assert response.cluster_authorized_operations == NOT_REQUESTED
    assert (
        describe_cluster(broker, version, include_cluster_authorized_operations=True).cluster_authorized_operations
        == 8096
    )


def test_fenced_brokers_only_on_request(broker: FakeBroker) -> None:
    broker.set_brokers(broker_image(1), broker_image(2, fenced=True))
    assert [one.broker_id for one in describe_cluster(broker, 2).brokers] == [1]
    response = describe_cluster(broker, 2, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in response.brokers] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("endpoint_type", "error", "message"),
    [
        (0, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 0"),
        (3, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 3"),
        (
            2,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
    ],
)
def test_brokers_do_not_describe_controllers(
    broker: FakeBroker, endpoint_type: int, error: ErrorCode, message: str
) -> None:
    response = describe_cluster(broker, 1, endpoint_type=endpoint_type)
    assert (response.error_code, response.error_message) == (error, message)
    assert (response.cluster_id, response.controller_id, response.brokers, response.endpoint_type) == ("", -1, (), 1)


def test_controller_without_the_listener_is_not_returned(broker: FakeBroker) -> None:
    response = describe_cluster(broker, 2, listener="EXTERNAL")
    assert (response.brokers, response.controller_id) == ((), -1)
