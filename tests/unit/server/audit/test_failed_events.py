"""Failed parts of administrative requests, from their responses."""

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.core.audit.event import FAILURE, NO_CALLER
from odradek.quorum.audited_commands import CONTROLLER_CHANGES
from odradek.server.audit.requests import failed_events
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import schema
from tests.raw_wire import build

OK, BAD, DENIED = ErrorCode.none, ErrorCode.invalid_request, ErrorCode.topic_authorization_failed


def failed(api_key: ApiKey, version: int, response: dict[str, Any], request: dict[str, Any] | None = None) -> Any:
    messages = schema(api_key, version)
    found = failed_events(
        CONTROLLER_CHANGES[api_key],
        build(messages.request_type, request or {}),
        build(messages.response_type, response),
        5,
        1,
        NO_CALLER,
    )
    assert {one.outcome for one in found} <= {FAILURE}
    return [(one.event, one.resource_type, one.resource_name, one.error, one.detail) for one in found]


def test_each_failed_resource_is_an_event() -> None:
    topics = [{"name": name, "error_code": code} for name, code in (("a", BAD), ("b", OK), ("c", BAD))]
    assert failed(ApiKey.CREATE_TOPICS, 7, {"topics": topics}) == [
        ("topic.create", "TOPIC", "a", "INVALID_REQUEST", None),
        ("topic.create", "TOPIC", "c", "INVALID_REQUEST", None),
    ]


def test_denials_are_left_to_the_authorizer() -> None:
    assert failed(ApiKey.CREATE_TOPICS, 7, {"topics": [{"name": "a", "error_code": DENIED}]}) == []


@pytest.mark.parametrize(("number", "name"), [(2, "TOPIC"), (4, "BROKER"), (32, "GROUP"), (99, "CONFIG")])
def test_configs_have_the_type_of_their_resource(number: int, name: str) -> None:
    response = {"resource_type": number, "resource_name": "x", "error_code": BAD, "error_message": "a secret value"}
    found = failed(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"responses": [response]})
    # Messages may contain the rejected value.
    assert found == [("config.alter", name, "x", "INVALID_REQUEST", None)]


def test_partitions_with_the_same_error_are_one_event() -> None:
    partitions = [
        {"partition_id": index, "error_code": code}
        for index, code in enumerate((BAD, OK, BAD, ErrorCode.election_not_needed))
    ]
    response = {"error_code": OK, "replica_election_results": [{"topic": "a", "partition_result": partitions}]}
    assert failed(ApiKey.ELECT_LEADERS, 2, response) == [
        ("leader.elect", "TOPIC", "a", "INVALID_REQUEST", "partitions 0, 2")
    ]


def test_responses_without_names_get_them_from_the_request() -> None:
    creations = [{"resource_name": name} for name in ("a", "b")]
    response = {"results": [{"error_code": OK}, {"error_code": BAD}]}
    assert failed(ApiKey.CREATE_ACLS, 3, response, {"creations": creations}) == [
        ("acl.create", "ACL", "b", "INVALID_REQUEST", None)
    ]
    assert failed(ApiKey.UNREGISTER_BROKER, 0, {"error_code": BAD}, {"broker_id": 7}) == [
        ("broker.unregister", "BROKER", "7", "INVALID_REQUEST", None)
    ]


def test_client_quotas_have_their_entity() -> None:
    entity = [{"entity_type": "user", "entity_name": "ann"}, {"entity_type": "client-id", "entity_name": None}]
    (found,) = failed(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [{"error_code": BAD, "entity": entity}]})
    assert found[2] == "user=ann,client-id=<default>"
