"""CreateAcls, DescribeAcls and DeleteAcls for a super user, and without an authorizer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from tests.apis import Api
from tests.kafka.side_by_side.conversation import Conversation, scenario, scenario_with_authorizer
from tests.node_process import NODE_ID

UNKNOWN_CODE = 99


@dataclass
class Found:
    """A part of a response."""

    results: list[str]


def _creation(name: str, **others: Any) -> dict[str, Any]:
    return {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
        **others,
    }


def _filter(name: str | None = None, **others: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
        **others,
    }


def _described(talk: Conversation, **wanted: Any) -> list[tuple[Any, ...]]:
    """Kafka describes in the order of hashes."""
    response = talk.request_quietly(Api.DESCRIBE_ACLS, _filter(**wanted))
    return sorted(
        (
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for one in response.resources
        for acl in one.acls
    )


def _write(talk: Conversation, title: str, found: Iterable[object]) -> None:
    talk.write(title, Found([str(one) for one in found]))


def _create(talk: Conversation, *creations: dict[str, Any]) -> None:
    before = len(_described(talk))
    talk.request_quietly(Api.CREATE_ACLS, {"creations": list(creations)})
    talk.until(lambda: len(_described(talk)) == before + len(creations))


def _delete_everything(talk: Conversation) -> None:
    talk.request_quietly(Api.DELETE_ACLS, {"filters": [_filter()]})
    talk.until(lambda: not _described(talk))


@scenario_with_authorizer
def acls_created_and_deleted(talk: Conversation) -> None:
    _delete_everything(talk)
    talk.request("nothing yet", Api.DESCRIBE_ACLS, _filter())
    talk.request_each_version("one", Api.CREATE_ACLS, {"creations": [_creation("one")]})
    talk.until(lambda: len(_described(talk)) == 1)
    talk.request_each_version("one", Api.DESCRIBE_ACLS, _filter("one"))
    talk.request("no creations", Api.CREATE_ACLS, {"creations": []})
    talk.request(
        "the same twice", Api.CREATE_ACLS, {"creations": [_creation("one"), _creation("two"), _creation("two")]}
    )
    talk.until(lambda: len(_described(talk)) == 2)
    talk.request("no filters", Api.DELETE_ACLS, {"filters": []})
    talk.request("no match", Api.DELETE_ACLS, {"filters": [_filter("three")]})
    talk.request("two filters match one", Api.DELETE_ACLS, {"filters": [_filter("one"), _filter("one")]})
    talk.until(lambda: len(_described(talk)) == 1)
    talk.request("an exact filter", Api.DELETE_ACLS, {"filters": [_exact("two")]}, version=1)
    talk.until(lambda: not _described(talk))


def _exact(name: str) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.LITERAL,
        "principal_filter": "User:alice",
        "host_filter": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }


@scenario_with_authorizer
def acls_described_by_filters(talk: Conversation) -> None:
    _delete_everything(talk)
    prefixed = {"resource_pattern_type": PatternType.PREFIXED}
    _create(
        talk,
        _creation("foobar"),
        _creation("foo", **prefixed),
        _creation("*", principal="User:*", operation=Operation.ALL),
        _creation("foobar", resource_type=ResourceType.GROUP, permission_type=Permission.DENY, host="10.0.0.1"),
        _creation("kafka-cluster", resource_type=ResourceType.CLUSTER, operation=Operation.ALTER),
        _creation("id", resource_type=ResourceType.TRANSACTIONAL_ID, operation=Operation.TWO_PHASE_COMMIT),
        _creation("token", resource_type=ResourceType.DELEGATION_TOKEN, operation=Operation.DESCRIBE),
        _creation("User:bob", resource_type=ResourceType.USER, operation=Operation.CREATE_TOKENS),
    )
    _write(talk, "everything", _described(talk))
    for pattern_type in (PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED):
        for name in ("foobar", "foo", "*", None):
            found = _described(talk, name=name, pattern_type_filter=pattern_type)
            _write(talk, f"{pattern_type.name} {name}", found)
    _write(talk, "by type", _described(talk, resource_type_filter=ResourceType.GROUP))
    _write(talk, "by principal", _described(talk, principal_filter="User:*"))
    _write(talk, "by host", _described(talk, host_filter="10.0.0.1"))
    _write(talk, "by operation", _described(talk, operation=Operation.ALL))
    _write(talk, "by permission", _described(talk, permission_type=Permission.DENY))
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        talk.request(f"code {UNKNOWN_CODE} of {field}", Api.DESCRIBE_ACLS, _filter(**{field: UNKNOWN_CODE}))
        talk.request(f"code 0 of {field}", Api.DESCRIBE_ACLS, _filter(**{field: 0}))
    _delete_everything(talk)


@scenario_with_authorizer
def acls_refused(talk: Conversation) -> None:
    _delete_everything(talk)
    refused = [
        _creation("a", resource_type=ResourceType.CLUSTER),
        _creation("", resource_type=ResourceType.CLUSTER),
        _creation(""),
        _creation("a", resource_type=UNKNOWN_CODE),
        _creation("a", resource_pattern_type=UNKNOWN_CODE),
        _creation("a", operation=UNKNOWN_CODE),
        _creation("a", permission_type=UNKNOWN_CODE),
        _creation("a", principal="alice"),
        _creation("a", principal=""),
        _creation("a", principal=":", host=""),
        _creation("a", resource_type=ResourceType.GROUP, operation=Operation.CREATE_TOKENS),
    ]
    talk.request("invalid and odd", Api.CREATE_ACLS, {"creations": refused})
    talk.until(lambda: len(_described(talk)) == 2)
    _write(talk, "what was created", _described(talk))
    fields = {
        "resource_type": ResourceType.ANY,
        "resource_pattern_type": PatternType.MATCH,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    for field, code in fields.items():
        both = [_creation("valid"), _creation("b", **{field: code})]
        talk.request(f"{field} of a filter", Api.CREATE_ACLS, {"creations": both})
        talk.request(f"code 0 of {field}", Api.CREATE_ACLS, {"creations": [_creation("b", **{field: 0})]})
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        both = [_filter("none"), _filter("none", **{field: UNKNOWN_CODE})]
        talk.request(f"code {UNKNOWN_CODE} of {field}", Api.DELETE_ACLS, {"filters": both})
        talk.request(f"code 0 of {field}", Api.DELETE_ACLS, {"filters": [_filter("none", **{field: 0})]})
    many = [_creation(f"topic-{number}", principal=f"User:{number // 6_000}") for number in range(10_001)]
    response = talk.request_quietly(Api.CREATE_ACLS, {"creations": many})
    _write(talk, "too many", {(one.error_code.name, one.error_message) for one in response.results})
    _create(talk, *many[:6_000])
    _create(talk, *many[6_000:])
    response = talk.request_quietly(Api.DELETE_ACLS, {"filters": [_filter("a"), _filter()]})
    _write(
        talk,
        "too many",
        [(one.error_code.name, one.error_message, len(one.matching_acls)) for one in response.filter_results],
    )
    for user in range(2):
        talk.request_quietly(Api.DELETE_ACLS, {"filters": [_filter(principal_filter=f"User:{user}")]})
    _delete_everything(talk)


@scenario
def acls_without_authorizer(talk: Conversation) -> None:
    talk.request_each_version("without authorizer", Api.DESCRIBE_ACLS, _filter())
    talk.request_each_version("without authorizer", Api.CREATE_ACLS, {"creations": [_creation("a"), _creation("")]})
    talk.request_each_version("without authorizer", Api.DELETE_ACLS, {"filters": [_filter(), _filter("a")]})
    talk.request("nothing", Api.CREATE_ACLS, {"creations": []})
    for field in ("resource_type", "permission_type"):
        talk.request(f"code 0 of {field}", Api.CREATE_ACLS, {"creations": [_creation("b", **{field: 0})]})


@scenario_with_authorizer
def configs_of_the_authorizer(talk: Conversation) -> None:
    names = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")
    broker = {"resource_type": 4, "resource_name": str(NODE_ID), "configuration_keys": names}
    fields = {"resources": [broker], "include_synonyms": True, "include_documentation": False}
    talk.request("of the broker", Api.DESCRIBE_CONFIGS, fields)
    for name in names:
        config = {"name": name, "value": "true", "config_operation": 0}
        altered = {"resource_type": 4, "resource_name": str(NODE_ID), "configs": [config]}
        request = {"resources": [altered], "validate_only": True}
        talk.request(f"{name} of the broker", Api.INCREMENTAL_ALTER_CONFIGS, request)
