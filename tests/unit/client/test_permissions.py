"""Authorization errors: what was denied, to whom, and the command that allows it."""

import asyncio
import shlex

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.principal import ANONYMOUS, USER, Principal
from odradek.client.acl_text import describe_entry, describe_permission, remove_command
from odradek.client.address import Address
from odradek.client.cluster import Cluster
from odradek.client.explain import explain
from odradek.client.permissions import AUTHORIZATION_ERRORS, NotAuthorized, error_in, error_of
from odradek.client.security import NOTHING, Sasl, Security, Tls
from odradek.console.gateway import Gateway
from odradek.console.readings.refusals import explain as explain_in_console
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from odradek.wire.apis import APIS, ApiKey
from odradek.wire.schemas import schema
from tests.unit.core.security.acl_samples import acl

ANN = Security(sasl=Sasl(mechanism="PLAIN", username="ann", password="secret"))
TOPIC_DENIED = ErrorCode.topic_authorization_failed
GROUP_DENIED = ErrorCode.group_authorization_failed
CLUSTER_DENIED = ErrorCode.cluster_authorization_failed


def raised_by(security: Security, error: KafkaError) -> KafkaError:
    """The error as it leaves the client of a cluster."""
    with pytest.raises(KafkaError) as caught, Cluster([Address("a", 1)], security=security):
        raise error
    return caught.value


def test_a_denial_names_principal_operation_and_resource_and_the_command_that_allows_it() -> None:
    error = raised_by(ANN, error_of(TOPIC_DENIED, None, ApiKey.PRODUCE, "orders"))
    line = explain(error)
    assert line == (
        "User:ann may not WRITE to topic orders (TOPIC_AUTHORIZATION_FAILED). An administrator can allow it: "
        "odradek acl add --allow-principal User:ann --operation Write --topic orders"
    )
    assert explain_in_console(error) == line


@pytest.mark.parametrize(
    ("code", "api_key", "name", "expected"),
    [
        (TOPIC_DENIED, ApiKey.FETCH, "a", "--operation Read --topic a"),
        (TOPIC_DENIED, ApiKey.METADATA, "a", "--operation Describe --topic a"),
        (TOPIC_DENIED, ApiKey.CREATE_TOPICS, "a", "--operation Create --topic a"),
        (TOPIC_DENIED, ApiKey.DELETE_TOPICS, "a", "--operation Delete --topic a"),
        (TOPIC_DENIED, ApiKey.INCREMENTAL_ALTER_CONFIGS, "a", "--operation AlterConfigs --topic a"),
        (GROUP_DENIED, ApiKey.OFFSET_COMMIT, "g", "--operation Read --group g"),
        (GROUP_DENIED, ApiKey.DELETE_GROUPS, "a b", "--operation Delete --group 'a b'"),
        (CLUSTER_DENIED, ApiKey.CREATE_ACLS, None, "--operation Alter --cluster"),
        (CLUSTER_DENIED, ApiKey.DESCRIBE_CLIENT_QUOTAS, None, "--operation DescribeConfigs --cluster"),
        (CLUSTER_DENIED, ApiKey.INIT_PRODUCER_ID, None, "--operation IdempotentWrite --cluster"),
        (
            ErrorCode.transactional_id_authorization_failed,
            ApiKey.END_TXN,
            "t",
            "--operation Write --transactional-id t",
        ),
        (
            ErrorCode.delegation_token_authorization_failed,
            ApiKey.CREATE_DELEGATION_TOKEN,
            "User:bob",
            "--operation CreateTokens --user-principal User:bob",
        ),
    ],
)
def test_the_command_is_for_the_operation_that_the_request_needs(
    code: ErrorCode, api_key: ApiKey, name: str | None, expected: str
) -> None:
    line = explain(raised_by(ANN, error_of(code, None, api_key, name)))
    assert line is not None
    assert line.endswith(f": odradek acl add --allow-principal User:ann {expected}")


def test_every_operation_that_an_api_checks_is_known() -> None:
    names = {check.operation for api in APIS.values() for check in api.checks}
    types = {check.resource for api in APIS.values() for check in api.checks}
    assert names <= set(Operation.__members__)
    assert types - {"DELEGATION_TOKEN"} == {one.name for one in AUTHORIZATION_ERRORS.values()}


def test_without_a_resource_or_an_operation_the_advice_is_general() -> None:
    unnamed = explain(raised_by(ANN, error_of(TOPIC_DENIED, None, ApiKey.FETCH, None)))
    unchecked = explain(raised_by(ANN, error_of(TOPIC_DENIED, None, ApiKey.API_VERSIONS, "a")))
    for line in (unnamed, unchecked):
        assert line is not None
        assert "TOPIC_AUTHORIZATION_FAILED" in line and "Ask the cluster's administrator" in line
        assert "odradek acl" not in line


def test_other_errors_stay_as_they_are() -> None:
    error = error_of(ErrorCode.invalid_config, "wrong", ApiKey.CREATE_TOPICS, "a")
    assert type(error) is KafkaError
    assert (error.code, error.message) == (ErrorCode.invalid_config, "wrong")


def test_names_come_from_the_part_of_the_response_that_has_the_error() -> None:
    configs = schema(ApiKey.DESCRIBE_CONFIGS, 4)
    result = configs.new(
        "DescribeConfigsResult",
        error_code=GROUP_DENIED,
        error_message=None,
        resource_type=32,
        resource_name="g",
        configs=(),
    )
    found = error_in(result)
    assert isinstance(found, NotAuthorized)
    assert (found.operation, found.name) == (Operation.DESCRIBE_CONFIGS, "g")
    # The topic of a group is not named by the group.
    groups = schema(ApiKey.CONSUMER_GROUP_DESCRIBE, 0)
    described = groups.new(
        "DescribedGroup",
        error_code=TOPIC_DENIED,
        error_message=None,
        group_id="g",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=0,
    )
    unnamed = error_in(described)
    assert isinstance(unnamed, NotAuthorized)
    assert unnamed.name is None


@pytest.mark.parametrize(
    ("security", "principal"),
    [
        (NOTHING, ANONYMOUS),
        (Security(tls=Tls()), ANONYMOUS),
        (ANN, Principal(USER, "ann")),
        (Security(tls=Tls(own="certificate and key"), sasl=ANN.sasl), Principal(USER, "ann")),
        # Only brokers know how they map certificates, and who owns a token.
        (Security(tls=Tls(own_file="ann.pem")), None),
        (Security(sasl=Sasl(mechanism="SCRAM-SHA-256", username="id", password="hmac", has_token=True)), None),
    ],
)
def test_principal_of_a_client(security: Security, principal: Principal | None) -> None:
    assert security.principal == principal


def test_an_unknown_principal_is_left_to_the_reader() -> None:
    line = explain(raised_by(Security(tls=Tls(own_file="ann.pem")), error_of(TOPIC_DENIED, None, ApiKey.FETCH, "a")))
    assert line is not None
    assert line.startswith("This client may not READ topic a ")
    assert "--allow-principal User:NAME " in line


def test_a_purpose_replaces_the_operation_that_it_includes() -> None:
    denied = error_of(CLUSTER_DENIED, None, ApiKey.INIT_PRODUCER_ID, None)
    assert isinstance(denied, NotAuthorized)
    line = explain(raised_by(ANN, denied.for_purpose(Operation.WRITE, ResourceType.TOPIC, "a")))
    assert line is not None
    assert "may not WRITE to topic a (CLUSTER_AUTHORIZATION_FAILED)" in line


def test_names_cannot_add_words_or_lines() -> None:
    name = "a; rm -rf ~\nerror: $(id)"
    line = explain(raised_by(ANN, error_of(GROUP_DENIED, None, ApiKey.DELETE_GROUPS, name)))
    assert line is not None and "\n" not in line
    words = shlex.split(line.partition(": odradek ")[2])
    assert words[-2:] == ["--group", " ".join(name.split())]


def test_the_console_adds_its_principal() -> None:
    def deny(cluster: Cluster) -> None:
        raise error_of(TOPIC_DENIED, None, ApiKey.FETCH, "a")

    async def query() -> None:
        gateway = Gateway([Address("a", 1)], security=ANN)
        try:
            await gateway.query(deny)
        finally:
            gateway.close()

    with pytest.raises(NotAuthorized) as caught:
        asyncio.run(query())
    assert explain_in_console(caught.value).startswith("User:ann may not READ topic a ")


def test_acls_in_words() -> None:
    denying = acl(
        "team-",
        Operation.ALTER_CONFIGS,
        Permission.DENY,
        principal="User:*",
        host="10.0.0.1",
        pattern_type=PatternType.PREFIXED,
    )
    assert describe_entry(denying) == (
        "DENY ALTER_CONFIGS on every topic that starts with team- to User:* from host 10.0.0.1"
    )
    assert remove_command(denying) == (
        "odradek acl remove --deny-principal 'User:*' --deny-host 10.0.0.1 --operation AlterConfigs --topic team- "
        "--resource-pattern-type prefixed"
    )
    wildcard = acl("*", Operation.READ, resource_type=ResourceType.GROUP)
    assert describe_entry(wildcard) == "ALLOW READ on every group to User:alice from all hosts"
    assert describe_permission(Operation.ALTER_CONFIGS, ResourceType.TOPIC, "a") == "ALTER_CONFIGS on topic a"
    assert describe_permission(Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster") == "ALTER the cluster"
