"""Traffic from brokers' HTTP endpoints: missing, invalid, of another node, and valid."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.client import node_http as module
from odradek.client.address import Address
from odradek.client.membership import Member
from odradek.client.security import NOTHING
from odradek.client.traffic import PATH, Rates, Traffic, traffic
from tests.unit.client.http_endpoint import http_endpoint

MEMBER = Member(id=1, address=Address("127.0.0.1", 9092), rack=None, is_fenced=False)
PARTITION = {
    "topic": "t",
    "partition": 3,
    "is_leader": True,
    "bytes_in_per_second": 10.5,
    "bytes_out_per_second": 2,
    "replication_bytes_in_per_second": 0,
    "replication_bytes_out_per_second": 21.0,
}


def query_traffic(monkeypatch: pytest.MonkeyPatch, address: str | None) -> Traffic:
    class Config:
        name = "http.address"
        value = address

    class FakeAdmin:
        def __init__(self, cluster: Any) -> None:
            """There is no cluster."""

        def configs(self, resource: Any, names: list[str]) -> list[Config]:
            assert (resource.name, names) == ("1", ["http.address", "http.security.protocol"])
            return [] if address is None else [Config()]

    monkeypatch.setattr(module, "Admin", FakeAdmin)
    cluster: Any = SimpleNamespace(security=NOTHING)
    return traffic(cluster, "cluster", {1: MEMBER}, timeout_s=20.0)


def response_body(**changes: Any) -> bytes:
    return json.dumps({"node": 1, "cluster": "cluster", "partitions": [PARTITION], **changes}).encode()


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "{}", "0.0.0.0:{}", ":{}", "[::]:{}"])
def test_rates_are_returned_by_partition(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    with http_endpoint(PATH, response_body()) as port:
        found = query_traffic(monkeypatch, form.format(port))
    expected = Rates(bytes_in=10.5, bytes_out=2.0, replication_bytes_in=0.0, replication_bytes_out=21.0)
    assert found == Traffic(rates={1: {TopicPartition("t", 3): expected}}, unavailable={})
    assert (expected + expected).bytes_in == 21.0


@pytest.mark.parametrize("address", [None, ""])
def test_a_broker_without_http_address_is_unavailable(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    assert query_traffic(monkeypatch, address).unavailable == {1: "http.address is not set"}


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.0.0.1:x", "a b:1"])
def test_an_unusable_http_address_is_unavailable(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    assert query_traffic(monkeypatch, address).rates == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (response_body(node=2), "another node"),
        (response_body(cluster="other"), "another node"),
        (b"hello", "invalid response"),
        (b"[]", "invalid response"),
        (response_body(partitions=[{"topic": "t"}]), "invalid response"),
        (response_body(partitions=7), "invalid response"),
    ],
)
def test_invalid_responses_are_unavailable(monkeypatch: pytest.MonkeyPatch, body: bytes, reason: str) -> None:
    with http_endpoint(PATH, body) as port:
        found = query_traffic(monkeypatch, f"127.0.0.1:{port}")
    assert found.rates == {}
    assert reason in found.unavailable[1]


def test_an_endpoint_with_errors_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_endpoint(PATH, b"no", status=503) as port:
        assert "returned HTTP 503" in query_traffic(monkeypatch, f"127.0.0.1:{port}").unavailable[1]
    assert "cannot connect to" in query_traffic(monkeypatch, f"127.0.0.1:{port}").unavailable[1]


def test_the_response_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESPONSE_BYTES_MAX", 10)
    with http_endpoint(PATH, response_body()) as port:
        assert "200: 11 bytes" in query_traffic(monkeypatch, f"127.0.0.1:{port}").unavailable[1]
