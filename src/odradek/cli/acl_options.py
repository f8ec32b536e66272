"""The options of `odradek acl`, with the names and the meaning that they have in kafka-acls."""

from collections.abc import Sequence
from enum import StrEnum
from ipaddress import ip_address
from itertools import product
from typing import Annotated, Final, NamedTuple

import typer

from odradek.client.acl_text import OPTIONS, spell_operation
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.hosts import acl_host
from odradek.core.security.resources import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType
from odradek.text.errors import UserError, nearest

_VALID: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE TWO_PHASE_COMMIT",
    ResourceType.DELEGATION_TOKEN: "DESCRIBE",
    ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}
"""The operations that requests perform on each type of resource."""
_OPERATIONS: Final = {one.name.replace("_", "").lower(): one for one in Operation if one >= Operation.ALL}
_TYPES: Final = {one.name.replace("_", "-").lower(): one for one in OPTIONS}


class AddedPattern(StrEnum):
    LITERAL = "literal"
    PREFIXED = "prefixed"


class FilterPattern(StrEnum):
    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


class Resource(NamedTuple):
    type: ResourceType
    name: str


class Subject(NamedTuple):
    """Whom an ACL names, and whether it allows or denies. None, and ANY, match everything in a filter."""

    principal: str | None
    host: str | None
    permission: Permission


def _names(option: str, help: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(option, metavar="NAME", show_default=False, help=help)
    return found


def _subjects(option: str, metavar: str, help: str) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(option, metavar=metavar, show_default=False, help=help)
    return found


_Texts = list[str] | None
Topics = Annotated[_Texts, _names("--topic", "Topic; * for all. Repeatable.")]
Groups = Annotated[_Texts, _names("--group", "Group ID; * for all. Repeatable.")]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
TransactionalIds = Annotated[_Texts, _names("--transactional-id", "Transactional ID; * for all. Repeatable.")]
DelegationTokens = Annotated[_Texts, _names("--delegation-token", "Delegation token ID; * for all. Repeatable.")]
UserPrincipals = Annotated[
    _Texts, _names("--user-principal", "User whose delegation tokens are created or described. Repeatable.")
]
AllowPrincipals = Annotated[_Texts, _subjects("--allow-principal", "PRINCIPAL", "Allow User:ann; User:* for all.")]
DenyPrincipals = Annotated[_Texts, _subjects("--deny-principal", "PRINCIPAL", "Deny User:ann; User:* for all.")]
AllowHosts = Annotated[_Texts, _subjects("--allow-host", "ADDRESS", "Allow only from this address. Repeatable.")]
DenyHosts = Annotated[_Texts, _subjects("--deny-host", "ADDRESS", "Deny only from this address. Repeatable.")]
Operations = Annotated[
    _Texts,
    typer.Option("--operation", metavar="OPERATION", show_default=False, help="Read, Write, … Repeatable."),
]
ForProducer = Annotated[
    bool,
    typer.Option("--producer", help="Write, Describe and Create on topics; Write, Describe on transactional IDs."),
]
ForConsumer = Annotated[bool, typer.Option("--consumer", help="Read and Describe on topics, and Read on groups.")]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="With --producer, also IdempotentWrite on the cluster.")]


def selected_resources(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    on_cluster: bool,
    transactional_ids: Sequence[str] | None,
    delegation_tokens: Sequence[str] | None,
    user_principals: Sequence[str] | None,
) -> list[Resource]:
    names = {
        ResourceType.TOPIC: topics,
        ResourceType.GROUP: groups,
        ResourceType.CLUSTER: (CLUSTER_NAME,) if on_cluster else (),
        ResourceType.TRANSACTIONAL_ID: transactional_ids,
        ResourceType.DELEGATION_TOKEN: delegation_tokens,
        ResourceType.USER: user_principals,
    }
    found = [Resource(kind, name.strip()) for kind, given in names.items() for name in given or ()]
    for kind, name in found:
        _check_name(kind, name, OPTIONS[kind])
    return found


def _check_name(kind: ResourceType, name: str, option: str) -> None:
    if not name:
        raise UserError(f"{option}: the name is empty.")
    if kind is ResourceType.USER and name != WILDCARD:
        check_principal(name, option)


def parse_resource(text: str) -> Resource:
    """Parse `topic:NAME`, `cluster` and so on."""
    kind_text, _, name = text.partition(":")
    kind = _TYPES.get(kind_text.strip().lower().replace("_", "-"))
    if kind is None:
        raise UserError(f"--resource {text!r}: unknown type. Use TYPE:NAME with one of {', '.join(_TYPES)}.")
    if kind is ResourceType.CLUSTER and name in ("", CLUSTER_NAME):
        return Resource(kind, CLUSTER_NAME)
    if kind is ResourceType.CLUSTER:
        raise UserError(f"--resource {text!r}: there is only one cluster. Use --resource cluster.")
    _check_name(kind, name, "--resource")
    return Resource(kind, name)


def selected_subjects(
    allowed: Sequence[str] | None,
    allowed_hosts: Sequence[str] | None,
    denied: Sequence[str] | None,
    denied_hosts: Sequence[str] | None,
) -> list[Subject]:
    """The subjects of new ACLs: every host of a principal, unless hosts are given."""
    found: list[Subject] = []
    for option, principals, hosts, permission in (
        ("allow", allowed, allowed_hosts, Permission.ALLOW),
        ("deny", denied, denied_hosts, Permission.DENY),
    ):
        if hosts and not principals:
            raise UserError(f"--{option}-host needs --{option}-principal.")
        for principal in principals or ():
            check_principal(principal, f"--{option}-principal")
        addresses = [parse_host(host, f"--{option}-host") for host in hosts or (WILDCARD,)]
        found += (Subject(*pair, permission) for pair in product(principals or (), addresses))
    if not found:
        raise UserError("Specify --allow-principal or --deny-principal, such as User:ann.")
    return found


def filtered_subjects(
    allowed: Sequence[str] | None,
    allowed_hosts: Sequence[str] | None,
    denied: Sequence[str] | None,
    denied_hosts: Sequence[str] | None,
) -> list[Subject]:
    """The subjects of ACLs to look for: what is not given matches everything."""
    found: list[Subject] = []
    for option, principals, hosts, permission in (
        ("allow", allowed, allowed_hosts, Permission.ALLOW),
        ("deny", denied, denied_hosts, Permission.DENY),
    ):
        for principal in principals or ():
            check_principal(principal, f"--{option}-principal")
        if principals or hosts:
            found += (Subject(*pair, permission) for pair in product(principals or (None,), hosts or (None,)))
    return found or [Subject(None, None, Permission.ANY)]


def check_principal(text: str, option: str) -> None:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise UserError(f"{option} {text!r} is not a principal. Use TYPE:NAME, such as User:ann.")


def parse_host(text: str, option: str) -> str:
    """An address as ACLs name it, or the wildcard."""
    if text == WILDCARD:
        return text
    try:
        ip_address(text)
    except ValueError:
        raise UserError(f"{option} {text!r} is not an IP address. ACLs cannot name hosts or networks.") from None
    return acl_host(text)


def parse_operation(text: str) -> Operation:
    """Parse `DescribeConfigs`, `DESCRIBE_CONFIGS` or `describe-configs`."""
    found = _OPERATIONS.get(text.strip().lower().replace("_", "").replace("-", ""))
    if found is not None:
        return found
    names = [spell_operation(one) for one in _OPERATIONS.values()]
    suggestion = nearest(text, names)
    hint = f"Did you mean {suggestion}?" if suggestion else f"Choose from {', '.join(names)}."
    raise UserError(f"--operation: unknown value {text!r}. {hint}")


def check_operation(operation: Operation, resource_type: ResourceType) -> None:
    valid = _VALID[resource_type].split()
    if operation is not Operation.ALL and operation.name not in valid:
        choices = ", ".join(spell_operation(Operation[name]) for name in valid)
        noun = resource_type.name.replace("_", " ").lower()
        raise UserError(f"{spell_operation(operation)} is no operation on a {noun}. Choose from All, {choices}.")


def new_entries(
    resources: Sequence[Resource], operations: Sequence[Operation], subjects: Sequence[Subject], pattern: AddedPattern
) -> list[AccessControlEntry]:
    """One ACL for each resource, operation and subject."""
    for resource, operation in product(resources, operations):
        check_operation(operation, resource.type)
    return [
        AccessControlEntry(
            resource.type.value,
            resource.name,
            _pattern_of(resource, PatternType[pattern.name]).value,
            subject.principal or WILDCARD,
            subject.host or WILDCARD,
            operation.value,
            subject.permission.value,
        )
        for resource, subject, operation in product(resources, subjects, operations)
    ]


def filters_of(
    resources: Sequence[Resource],
    operations: Sequence[Operation],
    subjects: Sequence[Subject],
    pattern: FilterPattern,
) -> list[AclFilter]:
    """The filters that match these resources, operations and subjects; empty ones match everything."""
    patterns: list[tuple[int, str | None, PatternType]] = [
        (one.type.value, one.name, _pattern_of(one, PatternType[pattern.name])) for one in resources
    ]
    return [
        AclFilter(kind, name, pattern_type.value, subject.principal, subject.host, operation, subject.permission.value)
        for (kind, name, pattern_type), subject, operation in product(
            patterns or [(ResourceType.ANY.value, None, PatternType.ANY)],
            subjects,
            [one.value for one in operations] or [Operation.ANY.value],
        )
    ]


def _pattern_of(resource: Resource, pattern: PatternType) -> PatternType:
    """The cluster has one name only, which a prefix cannot match."""
    return PatternType.LITERAL if resource.type is ResourceType.CLUSTER else pattern
