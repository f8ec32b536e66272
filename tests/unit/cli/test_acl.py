"""`odradek acl`: options as in kafka-acls, and explanations in words."""

import json
from collections.abc import Sequence

import pytest

from odradek.cli.acl_explanation import Facts, print_explanation
from odradek.cli.acl_options import (
    AddedPattern,
    FilterPattern,
    Resource,
    Subject,
    filtered_subjects,
    filters_of,
    new_entries,
    parse_host,
    parse_operation,
    parse_resource,
    selected_resources,
    selected_subjects,
)
from odradek.cli.acl_roles import Roles
from odradek.cli.main import run
from odradek.client.admin import ConfigValue
from odradek.client.authorizer_configs import AuthorizerConfigs, known_values, parse_super_users
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.explanation import ANY_HOST, AccessCheck, explain
from odradek.core.security.resources import Operation, PatternType, Permission, ResourceType
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat
from tests.unit.core.security.acl_samples import acl

ALLOW, DENY = Permission.ALLOW, Permission.DENY
ANN = Subject("User:ann", "*", ALLOW)
TOPIC = Resource(ResourceType.TOPIC, "orders")
GROUP = Resource(ResourceType.GROUP, "g")


# Options


@pytest.mark.parametrize("text", ["DescribeConfigs", "describeconfigs", "DESCRIBE_CONFIGS", "describe-configs"])
def test_operations_have_all_spellings_of_kafkas_tools(text: str) -> None:
    assert parse_operation(text) is Operation.DESCRIBE_CONFIGS


def test_unknown_operations_are_rejected_with_a_suggestion() -> None:
    with pytest.raises(UserError, match="Did you mean Write"):
        parse_operation("wriet")
    for text in ("Any", "Unknown", ""):
        with pytest.raises(UserError, match="Choose from All, Read"):
            parse_operation(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topic:orders", TOPIC),
        ("Topic:a:b", Resource(ResourceType.TOPIC, "a:b")),
        ("cluster", Resource(ResourceType.CLUSTER, "kafka-cluster")),
        ("transactional_id:t", Resource(ResourceType.TRANSACTIONAL_ID, "t")),
        ("delegation-token:x", Resource(ResourceType.DELEGATION_TOKEN, "x")),
        ("user:User:ann", Resource(ResourceType.USER, "User:ann")),
    ],
)
def test_resources_are_parsed(text: str, expected: Resource) -> None:
    assert parse_resource(text) == expected


@pytest.mark.parametrize("text", ["orders", "queue:a", "topic:", "topic", "cluster:other", "user:ann", ":a"])
def test_wrong_resources_are_rejected(text: str) -> None:
    with pytest.raises(UserError):
        parse_resource(text)


def test_hosts_are_addresses_as_brokers_name_them() -> None:
    assert parse_host("*", "--host") == "*"
    assert parse_host("::1", "--host") == "0:0:0:0:0:0:0:1"
    for text in ("example.com", "10.0.0.0/8", ""):
        with pytest.raises(UserError, match="is not an IP address"):
            parse_host(text, "--host")


def test_each_principal_is_combined_with_each_host() -> None:
    found = selected_subjects(["User:a", "User:b"], ["10.0.0.1", "10.0.0.2"], ["User:c"], None)
    assert found == [
        *(Subject(name, host, ALLOW) for name in ("User:a", "User:b") for host in ("10.0.0.1", "10.0.0.2")),
        Subject("User:c", "*", DENY),
    ]


@pytest.mark.parametrize(
    ("subjects", "message"),
    [
        ((None, None, None, None), "Specify --allow-principal or --deny-principal"),
        ((None, ["10.0.0.1"], None, None), "--allow-host needs --allow-principal"),
        ((["User:a"], None, None, ["10.0.0.1"]), "--deny-host needs --deny-principal"),
        ((["ann"], None, None, None), "is not a principal"),
        ((["User:"], None, None, None), "is not a principal"),
    ],
)
def test_wrong_subjects_are_rejected(subjects: Sequence[Sequence[str] | None], message: str) -> None:
    with pytest.raises(UserError, match=message):
        selected_subjects(*subjects)


def test_subjects_of_filters_match_everything_that_is_not_given() -> None:
    assert filtered_subjects(None, None, None, None) == [Subject(None, None, Permission.ANY)]
    assert filtered_subjects(["User:a"], None, None, ["h"]) == [
        Subject("User:a", None, ALLOW),
        Subject(None, "h", DENY),
    ]


def test_new_acls_are_all_combinations() -> None:
    resources = selected_resources(["a", "b"], None, False, None, None, None)
    found = new_entries(resources, [Operation.READ, Operation.ALL], [ANN], AddedPattern.PREFIXED)
    assert [(one.resource_name, one.operation) for one in found] == [("a", 3), ("a", 2), ("b", 3), ("b", 2)]
    assert {one.pattern_type for one in found} == {PatternType.PREFIXED}


def test_the_cluster_is_always_literal() -> None:
    resources = selected_resources(None, None, True, None, None, None)
    (entry,) = new_entries(resources, [Operation.ALTER], [ANN], AddedPattern.PREFIXED)
    assert (entry.resource_name, entry.pattern_type) == ("kafka-cluster", PatternType.LITERAL)


@pytest.mark.parametrize(
    ("resource", "operation"),
    [(TOPIC, Operation.CLUSTER_ACTION), (GROUP, Operation.WRITE), (parse_resource("cluster"), Operation.READ)],
)
def test_operations_that_a_resource_does_not_have_are_rejected(resource: Resource, operation: Operation) -> None:
    with pytest.raises(UserError, match="is no operation on"):
        new_entries([resource], [operation], [ANN], AddedPattern.LITERAL)


def test_empty_filters_match_everything() -> None:
    anything = [Subject(None, None, Permission.ANY)]
    assert filters_of([], [], anything, FilterPattern.LITERAL) == [AclFilter(1, None, 1, None, None, 1, 1)]
    assert filters_of([TOPIC], [Operation.READ], anything, FilterPattern.MATCH) == [
        AclFilter(2, "orders", 2, None, None, 3, 1)
    ]


def operations_by_resource(entries: Sequence[AccessControlEntry]) -> dict[tuple[int, str], set[int]]:
    found: dict[tuple[int, str], set[int]] = {}
    for one in entries:
        found.setdefault((one.resource_type, one.resource_name), set()).add(one.operation)
    return found


def test_producers_and_consumers_have_the_acls_of_kafka_acls() -> None:
    resources = [TOPIC, GROUP, Resource(ResourceType.TRANSACTIONAL_ID, "t")]
    entries = Roles(True, True, True).entries(resources, [ANN], AddedPattern.LITERAL)
    assert operations_by_resource(entries) == {
        (ResourceType.TOPIC, "orders"): {Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE},
        (ResourceType.GROUP, "g"): {Operation.READ},
        (ResourceType.TRANSACTIONAL_ID, "t"): {Operation.WRITE, Operation.DESCRIBE},
        (ResourceType.CLUSTER, "kafka-cluster"): {Operation.IDEMPOTENT_WRITE},
    }
    assert len(entries) == len(set(entries))


@pytest.mark.parametrize(
    ("roles", "resources", "message"),
    [
        (Roles(False, False, True), [TOPIC], "--idempotent needs --producer"),
        (Roles(True, False, False), [], "--producer needs --topic"),
        (Roles(False, True, False), [TOPIC], "--topic and --group"),
        (Roles(True, False, False), [TOPIC, GROUP], "do not use --group"),
    ],
)
def test_wrong_options_of_producers_and_consumers_are_rejected(
    roles: Roles, resources: Sequence[Resource], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        roles.check(resources, (), [ANN])


def test_producers_and_consumers_are_only_allowed() -> None:
    for operations, subject in ((["Read"], ANN), ([], ANN._replace(permission=DENY))):
        with pytest.raises(UserError, match="cannot be combined"):
            Roles(True, False, False).check([TOPIC], operations, [subject])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["add", "--allow-principal", "User:a"], "Specify a resource"),
        (["add", "--topic", "a"], "Specify --allow-principal"),
        (["add", "--allow-principal", "User:a", "--topic", "a", "--resource-pattern-type", "match"], "'match' is not"),
        (["remove", "--yes"], "Specify a resource"),
        (["remove", "--operation", "Read", "--deny-host", "10.0.0.1"], "Specify a resource"),
        (["list", "--principal", "ann"], "is not a principal"),
        (["test", "--principal", "User:a", "--operation", "All", "--resource", "topic:a"], "single operations"),
        (["explain", "--principal", "User:a", "--operation", "Read", "--resource", "cluster"], "is no operation on"),
        (["explain", "--principal", "User:a", "--operation", "Read", "--resource", "a"], "unknown type"),
    ],
)
def test_mistakes_are_reported_in_one_line_before_connecting(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["acl", *command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


# Configs of the authorizer


def config(name: str, value: str | None) -> ConfigValue:
    return ConfigValue(
        name=name, value=value, source="", is_default=False, is_sensitive=value is None, is_read_only=True
    )


def test_configs_that_are_not_described_are_not_set() -> None:
    found = known_values([])
    assert (found.super_users, found.allows_without_acl) == (frozenset(), False)


def test_configs_without_a_value_are_unknown() -> None:
    found = known_values([config("super.users", None), config("allow.everyone.if.no.acl.found", None)])
    assert (found.super_users, found.allows_without_acl, found.may_be_read) == (None, None, True)


def test_configs_with_a_value_are_read_as_brokers_do() -> None:
    found = known_values([config("super.users", "User:a; User:b;"), config("allow.everyone.if.no.acl.found", "TRUE")])
    assert (found.super_users, found.allows_without_acl) == ({"User:a", "User:b"}, True)
    assert parse_super_users("") == frozenset()


# Explanations

KNOWN = AuthorizerConfigs(super_users=frozenset({"User:root"}), allows_without_acl=False, may_be_read=True)
CHECK = AccessCheck("User:ann", ANY_HOST, Operation.DESCRIBE, ResourceType.TOPIC, "orders")


def explained(
    capsys: pytest.CaptureFixture[str],
    *entries: AccessControlEntry,
    check: AccessCheck = CHECK,
    configs: AuthorizerConfigs = KNOWN,
) -> list[str]:
    print_explanation(facts(check, entries, configs), OutputFormat.TABLE)
    return capsys.readouterr().out.splitlines()


def facts(check: AccessCheck, entries: Sequence[AccessControlEntry], configs: AuthorizerConfigs = KNOWN) -> Facts:
    explanation = explain(
        check, entries, configs.super_users or (), allows_without_acl=configs.allows_without_acl or False
    )
    return Facts(explanation, configs, list(entries))


def ann(operation: Operation, permission: Permission = ALLOW, **fields: object) -> AccessControlEntry:
    return acl("orders", operation, permission, principal="User:ann", **fields)  # type: ignore[arg-type]


def test_super_users_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, check=CHECK._replace(principal="User:root")) == [
        "User:root may DESCRIBE topic orders.",
        "Rule: User:root is a super user. ACLs do not apply to super users.",
    ]


def test_implied_operations_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, ann(Operation.READ)) == [
        "User:ann may DESCRIBE topic orders.",
        "Rule: ACL: ALLOW READ on topic orders to User:ann from all hosts. READ implies DESCRIBE.",
    ]


def test_missing_acls_are_explained_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = "To allow it: odradek acl add --allow-principal User:ann --operation Describe --topic orders"
    first, rule, last = explained(capsys, ann(Operation.CREATE))
    assert first == "User:ann may not DESCRIBE topic orders."
    assert rule.startswith("Rule: ACLs about topic orders exist, but none allows DESCRIBE to User:ann.")
    assert last == command
    first, rule, last = explained(capsys)
    assert rule == "Rule: No ACL is about topic orders, and allow.everyone.if.no.acl.found is not true."
    assert last == command


def test_the_default_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    configs = AuthorizerConfigs(super_users=frozenset(), allows_without_acl=True, may_be_read=True)
    assert explained(capsys, configs=configs) == [
        "User:ann may DESCRIBE topic orders.",
        "Rule: No ACL is about topic orders, and allow.everyone.if.no.acl.found is true.",
    ]


def test_denying_acls_are_explained_with_the_commands_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    everyone = acl("ord", Operation.ALL, DENY, principal="User:*", pattern_type=PatternType.PREFIXED)
    lines = explained(capsys, ann(Operation.DESCRIBE, DENY), everyone)
    assert lines[1] == (
        "Rule: ACL: DENY DESCRIBE on topic orders to User:ann from all hosts. DENY takes precedence over ALLOW."
    )
    assert lines[2:] == [
        "To allow it: odradek acl remove --deny-principal User:ann --deny-host '*' --operation Describe --topic orders",
        "To allow it: odradek acl remove --deny-principal 'User:*' --deny-host '*' --operation All --topic ord "
        "--resource-pattern-type prefixed",
        "To allow it: odradek acl add --allow-principal User:ann --operation Describe --topic orders",
        "Note: Removing an ACL for other principals or resources too changes what they may do.",
    ]


def test_acls_for_single_hosts_are_mentioned_without_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    entry = ann(Operation.READ, host="10.0.0.1")
    assert explained(capsys, entry)[-1].startswith("Note: ACLs for single addresses exist. Specify --host")
    assert explained(capsys, entry, check=CHECK._replace(host="10.0.0.1"))[0] == (
        "User:ann may DESCRIBE topic orders from 10.0.0.1."
    )
    others = acl("orders", Operation.READ, principal="User:bob", host="10.0.0.1")
    assert not any("single addresses" in line for line in explained(capsys, others))


@pytest.mark.parametrize(
    ("may_be_read", "why"),
    [(True, "the brokers do not show its value"), (False, "this client may not read the brokers' configs")],
)
def test_unknown_configs_are_stated(capsys: pytest.CaptureFixture[str], may_be_read: bool, why: str) -> None:
    unknown = AuthorizerConfigs(super_users=None, allows_without_acl=None, may_be_read=may_be_read)
    notes = [line for line in explained(capsys, configs=unknown) if line.startswith("Note: ")]
    assert [line.split(" ")[1] for line in notes] == ["super.users", "allow.everyone.if.no.acl.found"]
    assert all(f"is unknown, because {why}" in line for line in notes)
    # With an ACL, the default does not matter.
    (note,) = [line for line in explained(capsys, ann(Operation.READ), configs=unknown) if line.startswith("Note: ")]
    assert note.startswith("Note: super.users is unknown")


def test_explanations_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = AuthorizerConfigs(super_users=frozenset(), allows_without_acl=None, may_be_read=True)
    print_explanation(facts(CHECK, [ann(Operation.WRITE)], unknown), OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == {
        "allowed": True,
        "principal": "User:ann",
        "host": None,
        "operation": "DESCRIBE",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "reason": "ALLOW_ACL",
        "acl": {
            "resource_type": "TOPIC",
            "resource_name": "orders",
            "pattern_type": "LITERAL",
            "principal": "User:ann",
            "host": "*",
            "operation": "WRITE",
            "permission_type": "ALLOW",
        },
        "implied_by": "WRITE",
        "commands": [],
        "unknown_configs": ["allow.everyone.if.no.acl.found"],
    }
