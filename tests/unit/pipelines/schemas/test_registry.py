"""A registry that knows a schema, one that does not, and one that is away: three different things."""

from collections.abc import Iterator

import pytest

from odradek.client import json_over_http
from odradek.pipelines.schemas.registry import RegistryClient, RegistryUnavailable, UnknownSchema
from odradek.pipelines.schemas.schema import Schema, Undecodable
from tests.schema_registry import FakeRegistry, fake_registry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.fixture
def client(registry: FakeRegistry) -> RegistryClient:
    return RegistryClient(f"http://ann:secret@{registry.address}")


def test_known_and_unknown_schemas(registry: FakeRegistry, client: RegistryClient) -> None:
    registry.responses = {
        "/schemas/ids/1": {"schema": '"int"'},
        "/schemas/ids/2": {"schema": '"X"', "references": [{"name": "X", "subject": "x", "version": 1}]},
    }
    assert client.schema(1) == Schema(type="AVRO", text='"int"')
    with pytest.raises(UnknownSchema):
        client.schema(3)
    with pytest.raises(Undecodable, match="references 'X', which is not in the schema registry") as raised:
        client.schema(2)
    assert not isinstance(raised.value, UnknownSchema)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_other_http_errors_mean_an_unavailable_registry(
    registry: FakeRegistry, client: RegistryClient, status: int
) -> None:
    """Also 404, by a server that is no registry."""
    registry.responses = {"/schemas/ids/1": {"message": "no"}}
    registry.trouble = status
    with pytest.raises(RegistryUnavailable, match=f"returned HTTP {status}") as raised:
        client.schema(1)
    assert "secret" not in str(raised.value) and "ann" not in str(raised.value)


@pytest.mark.parametrize(
    "response", [b"<html>", b"[]", {}, {"schema": "x", "references": 5}, {"schema": "x", "references": [{"name": "a"}]}]
)
def test_invalid_registry_responses(registry: FakeRegistry, client: RegistryClient, response: object) -> None:
    registry.responses = {"/schemas/ids/1": response}
    with pytest.raises(RegistryUnavailable):
        client.schema(1)


def test_protobuf_source_from_a_registry_is_rejected(registry: FakeRegistry, client: RegistryClient) -> None:
    protobuf = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A {}'}
    registry.responses = {"/schemas/ids/1": protobuf, "/schemas/ids/1?format=serialized": protobuf}
    with pytest.raises(RegistryUnavailable, match="format=serialized"):
        client.schema(1)


def test_registry_requests_time_out(
    registry: FakeRegistry, client: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.responses = {"/schemas/ids/1": {"schema": "x" * json_over_http.RESPONSE_BYTES_MAX}}
    with pytest.raises(RegistryUnavailable, match="returned HTTP 200"):
        client.schema(1)
    registry.responses = {"/schemas/ids/1": {"schema": '"int"'}}
    monkeypatch.setattr(json_over_http, "TIMEOUT_S", 0.2)
    registry.pause_s = 0.5
    with pytest.raises(RegistryUnavailable, match="does not respond"):
        client.schema(1)


def test_a_missing_schema_is_unknown() -> None:
    with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1 does not respond"):
        RegistryClient("http://ann:secret@127.0.0.1:1").schema(1)
