"""The table of APIs, and that no API number appears anywhere else."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from kio.schema.index import api_key_map, schema_name_map

import odradek
from odradek.wire.apis import (
    APIS,
    BROKER_APIS,
    CONSENSUS_APIS,
    CONTROLLER_APIS,
    FORWARDABLE_APIS,
    INTERNAL_APIS,
    ApiKey,
    ServedApi,
    broker_apis,
)

SOURCE = Path(odradek.__file__).parent
TABLE = SOURCE / "wire" / "apis.py"

OPERATIONS = {
    "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
}  # fmt: skip
RESOURCES = {"TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
# Kafka checks no ACL for these: the first is open to everyone, the others to the token's owner and renewers.
WITHOUT_CHECKS = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}


def test_keys_and_names_are_those_of_kafka() -> None:
    assert {int(key): key.name.lower() for key in ApiKey} == dict(api_key_map)


def test_versions_have_messages() -> None:
    for api in APIS.values():
        served = range(api.served_from, api.high + 1)
        assert set(served) <= set(schema_name_map[api_key_map[api.key]]), api.key.name


@pytest.mark.parametrize("api", [*BROKER_APIS.values(), *CONTROLLER_APIS.values()], ids=lambda api: api.handler)
def test_handlers_exist(api: ServedApi) -> None:
    assert find_spec(f"odradek.{api.handler}") is not None


def test_forwarded_apis_are_executed_by_controllers() -> None:
    for key, api in BROKER_APIS.items():
        if api.handler == "broker.apis.forwarded":
            assert key in FORWARDABLE_APIS and key in CONTROLLER_APIS


def test_internal_apis_are_not_served_to_clients() -> None:
    assert not INTERNAL_APIS & BROKER_APIS.keys()
    assert CONTROLLER_APIS.keys() >= CONSENSUS_APIS


def test_authorization_uses_operations_and_resources_of_kafka() -> None:
    for api in APIS.values():
        assert bool(api.checks) == (api.key not in WITHOUT_CHECKS), api.key.name
        assert {check.operation for check in api.checks} <= OPERATIONS
        assert {check.resource for check in api.checks} <= RESOURCES


def test_two_phase_commit_adds_a_version_of_init_producer_id() -> None:
    assert broker_apis(two_phase_commit=False) is BROKER_APIS
    changed = broker_apis(two_phase_commit=True)
    assert changed[ApiKey.INIT_PRODUCER_ID].high == 6
    assert {key for key in changed if changed[key] != BROKER_APIS[key]} == {ApiKey.INIT_PRODUCER_ID}


def test_no_other_module_contains_an_api_number() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != TABLE
        for line in bare_api_numbers(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "schema(18, 0)",
        "await peer.request(18, build)",
        "FETCH: Final = 1",
        "_CREATE_TOPICS = 19",
        "VOTE_KEY = 52",
        "ALTER_PARTITION = (56, 3)",
        "PRODUCE, FETCH = 0, 1",
        "OWN_APIS = frozenset({56, 62})",
        "HANDLERS = {19: 'create_topics'}",
        "if context.api_key == 44: pass",
        "if api_key in (44, 33): pass",
        "new('ApiVersion', api_key=18)",
        "apis[18]",
        "CONTROLLER_APIS[63]",
    ],
)
def test_the_scan_finds_api_numbers(source: str) -> None:
    wrapped = "async def f():\n    " + source if "await" in source else source
    assert list(bare_api_numbers(wrapped))


@pytest.mark.parametrize(
    "source",
    ["schema(ApiKey.FETCH, 12)", "FIRST_FLEXIBLE = 12", "apis[ApiKey.FETCH]", "FETCH_WAIT_MS = 1", "new(api_keys=())"],
)
def test_the_scan_ignores_other_numbers(source: str) -> None:
    assert not list(bare_api_numbers(source))


REQUESTING = {"schema", "request", "send_to_any", "send_to_broker", "send_to_controller"}
NAMES = {key.name: int(key) for key in ApiKey}


def bare_api_numbers(source: str) -> Iterator[int]:
    """The lines on which a number stands where an API key belongs."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=func, args=[first, *_]) if name_of(func) in REQUESTING and has_number(first):
                yield node.lineno
            case ast.keyword(arg="api_key", value=value) if has_number(value):
                yield value.lineno
            case ast.Compare(left=left, comparators=others) if any(
                name_of(side).endswith("api_key") for side in (left, *others)
            ) and any(has_number(side) for side in (left, *others)):
                yield node.lineno
            case ast.Subscript(value=value, slice=index) if name_of(value).lower().endswith("apis") and has_number(
                index
            ):
                yield node.lineno
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                if assigns_api_number(target, value):
                    yield node.lineno
            case _:
                pass


def assigns_api_number(target: ast.expr, value: ast.expr) -> bool:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return any(map(assigns_api_number, target.elts, value.elts))
    if isinstance(value, ast.Dict) and any(
        is_number(key) and isinstance(item, ast.Constant) and str(item.value).upper() in NAMES
        for key, item in zip(value.keys, value.values, strict=True)
    ):
        return True
    name = name_of(target).lstrip("_")
    if name.upper().endswith("APIS") and has_number(value):
        return True
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    key = NAMES.get(name.removesuffix("_KEY").removesuffix("_API"))
    return key is not None and isinstance(first, ast.Constant) and first.value == key


def name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def is_number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def has_number(node: ast.expr) -> bool:
    return any(isinstance(part, ast.expr) and is_number(part) for part in ast.walk(node))
