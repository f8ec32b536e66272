"""Queries of nodes' HTTP endpoints, and unexpected responses."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.connection import milliseconds
from odradek.client.coordinators import Coordinator
from odradek.client.node_http import HTTP_ADDRESS, NoEndpoint, query_node
from odradek.client.rebalances import PATH, Rebalance, last_rebalances
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.node_process import free_ports
from tests.unit.client.http_endpoint import http_endpoint
from tests.unit.client.scripted_broker import METADATA, ScriptedBroker

CLUSTER_ID = "scripted"
REBALANCE = {"cause": "it came", "began_ms": 5, "ended_ms": None}
RESPONSE = {"node": 1, "cluster": CLUSTER_ID, "groups": [{"group": "g", "state": "Stable", "rebalances": [REBALANCE]}]}


@contextmanager
def broker_with(http_address: str | None) -> Iterator[Cluster]:
    def configs(request: Message, chosen: Schema) -> Message:
        config = chosen.new(
            "DescribeConfigsResourceResult",
            name=HTTP_ADDRESS,
            value=http_address,
            read_only=True,
            config_source=4,
            is_sensitive=False,
            synonyms=(),
            config_type=2,
            documentation=None,
        )
        result = chosen.new(
            "DescribeConfigsResult",
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=4,
            resource_name="1",
            configs=() if http_address is None else (config,),
        )
        return chosen.new("DescribeConfigsResponse", throttle_time=milliseconds(0), results=(result,))

    with ScriptedBroker(
        {ApiKey.DESCRIBE_CONFIGS: configs}, {METADATA: (0, 12), ApiKey.DESCRIBE_CONFIGS: (1, 4)}
    ) as broker:
        broker.handlers[METADATA] = broker.metadata({})
        with Cluster([broker.address], timeout_s=5.0) as cluster:
            yield cluster


def query(cluster: Cluster) -> Any:
    return query_node(cluster, CLUSTER_ID, 1, "127.0.0.1", "/v1/rebalances", timeout_s=5.0)


@pytest.mark.parametrize("form", ["{port}", "127.0.0.1:{port}", ":{port}", "0.0.0.0:{port}", "[::]:{port}"])
def test_forms_of_http_address(form: str) -> None:
    with http_endpoint(PATH, json.dumps(RESPONSE).encode()) as port, broker_with(form.format(port=port)) as cluster:
        assert query(cluster) == RESPONSE


@pytest.mark.parametrize("text", [None, "", "0", "127.0.0.1:0", "nonsense", "127.0.0.1:99999999"])
def test_a_broker_without_a_usable_http_address(text: str | None) -> None:
    with broker_with(text) as cluster, pytest.raises(NoEndpoint):
        query(cluster)


def test_a_refused_connection_is_reported() -> None:
    with broker_with(str(free_ports(1)[0])) as cluster, pytest.raises(NoEndpoint, match="cannot connect to"):
        query(cluster)


HOSTILE = {
    "nothing": b"",
    "no JSON": b"<html>",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "no text": b"\xff\xfe",
    "without a node": b"{}",
    "another node": json.dumps({**RESPONSE, "node": 2}).encode(),
    "another cluster": json.dumps({**RESPONSE, "cluster": "other"}).encode(),
    "no groups": json.dumps({"node": 1, "cluster": CLUSTER_ID}).encode(),
    "odd groups": json.dumps({**RESPONSE, "groups": 5}).encode(),
    "odd times": json.dumps({**RESPONSE, "groups": [{"group": "g", "rebalances": [{"cause": "x"}]}]}).encode(),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_coordinators_with_invalid_responses_are_left_out(body: bytes) -> None:
    with http_endpoint(PATH, body) as port, broker_with(str(port)) as cluster:
        assert last_rebalances(cluster, [Coordinator(1, Address("127.0.0.1", 1))], timeout_s=5.0) == {}


def test_http_errors_are_reported() -> None:
    with (
        http_endpoint(PATH, json.dumps(RESPONSE).encode(), 500) as port,
        broker_with(str(port)) as cluster,
        pytest.raises(NoEndpoint, match="returned HTTP 500"),
    ):
        query(cluster)


def test_rebalances_are_returned_by_group() -> None:
    coordinator = Coordinator(1, Address("127.0.0.1", 1))
    with http_endpoint(PATH, json.dumps(RESPONSE).encode()) as port, broker_with(str(port)) as cluster:
        found = last_rebalances(cluster, [coordinator, coordinator], timeout_s=5.0)
    assert found == {coordinator: {"g": [Rebalance(cause="it came", began_ms=5, ended_ms=None)]}}
