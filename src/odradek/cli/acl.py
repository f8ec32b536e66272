"""`odradek acl`: list, add, remove, test and explain ACLs."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from odradek.cli import acl_options as options
from odradek.cli.acl_explanation import as_json, explain_check, print_explanation, warn_of_unknown_configs
from odradek.cli.acl_options import AddedPattern, FilterPattern, Resource, filters_of, new_entries, selected_resources
from odradek.cli.acl_roles import Roles
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.client.acl_text import describe_entry, describe_permission
from odradek.client.acls import Acls
from odradek.client.authorizer_configs import ALLOW_WITHOUT_ACL, SUPER_USERS, parse_super_users
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.explanation import ANY_HOST, AccessCheck
from odradek.core.security.resources import Operation, Permission
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import is_terminal, neutralise, say

app = typer.Typer(help="List, add, remove, test and explain ACLs.", no_args_is_help=True)

_NEEDS_RESOURCE = "Specify a resource: --topic, --group, --cluster, --transactional-id, --delegation-token, …"

CheckedPrincipal = Annotated[
    str, typer.Option("--principal", metavar="PRINCIPAL", show_default=False, help="Principal, such as User:ann.")
]
CheckedOperation = Annotated[
    str, typer.Option("--operation", metavar="OPERATION", show_default=False, help="Read, Write, Describe, …")
]
CheckedResource = Annotated[
    str,
    typer.Option(
        "--resource",
        metavar="TYPE:NAME",
        show_default=False,
        help="topic:NAME, group:NAME, cluster, transactional-id:NAME, delegation-token:ID or user:PRINCIPAL.",
    ),
]
CheckedHost = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="IP address of the client. Default: one that no ACL names."),
]
SuperUsers = Annotated[
    str | None,
    typer.Option("--super-users", metavar="LIST", help=f"Value of {SUPER_USERS}, which brokers hide once it is set."),
]
AllowWithoutAcl = Annotated[
    bool | None,
    typer.Option(
        f"--{ALLOW_WITHOUT_ACL.replace('.', '-')}/--deny-everyone-if-no-acl-found",
        show_default=False,
        help=f"Value of {ALLOW_WITHOUT_ACL}, which brokers hide once it is set.",
    ),
]


@app.command("list")
def list_acls(
    principal: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="PRINCIPAL", show_default=False, help="Only of User:ann. Repeatable."),
    ] = None,
    operation: options.Operations = None,
    topic: options.Topics = None,
    group: options.Groups = None,
    cluster_resource: options.OnCluster = False,
    transactional_id: options.TransactionalIds = None,
    delegation_token: options.DelegationTokens = None,
    user_principal: options.UserPrincipals = None,
    resource_pattern_type: Annotated[
        FilterPattern,
        typer.Option(
            "--resource-pattern-type",
            case_sensitive=False,
            help="Patterns to list: match lists every ACL that applies to the resource.",
        ),
    ] = FilterPattern.MATCH,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List ACLs: all, or those of some principals, operations and resources."""
    resources = selected_resources(topic, group, cluster_resource, transactional_id, delegation_token, user_principal)
    for one in principal or ():
        options.check_principal(one, "--principal")
    subjects = [options.Subject(one, None, Permission.ANY) for one in principal or (None,)]
    wanted = filters_of(resources, _operations(operation), subjects, resource_pattern_type)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        found = Acls(cluster).list(wanted)
    if format is OutputFormat.JSON:
        print_json([as_json(entry) for entry in found])
    elif found:
        rows = [tuple(as_json(entry).values()) for entry in found]
        print_table(("resource", "name", "pattern", "principal", "host", "operation", "permission"), rows)
    else:
        say("No matching ACLs." if resources or principal or operation else "No ACLs exist.")


@app.command()
def add(
    allow_principal: options.AllowPrincipals = None,
    deny_principal: options.DenyPrincipals = None,
    allow_host: options.AllowHosts = None,
    deny_host: options.DenyHosts = None,
    operation: options.Operations = None,
    topic: options.Topics = None,
    group: options.Groups = None,
    cluster_resource: options.OnCluster = False,
    transactional_id: options.TransactionalIds = None,
    delegation_token: options.DelegationTokens = None,
    user_principal: options.UserPrincipals = None,
    resource_pattern_type: Annotated[
        AddedPattern,
        typer.Option(
            "--resource-pattern-type",
            case_sensitive=False,
            help="prefixed: the ACLs are for all resources whose name starts with the given one.",
        ),
    ] = AddedPattern.LITERAL,
    producer: options.ForProducer = False,
    consumer: options.ForConsumer = False,
    idempotent: options.Idempotent = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Add ACLs. Without --operation, they are for all operations, as in kafka-acls."""
    resources = selected_resources(topic, group, cluster_resource, transactional_id, delegation_token, user_principal)
    if not resources:
        raise UserError(_NEEDS_RESOURCE)
    subjects = options.selected_subjects(allow_principal, allow_host, deny_principal, deny_host)
    if producer or consumer or idempotent:
        roles = Roles(producer, consumer, idempotent)
        roles.check(resources, operation or (), subjects)
        entries = roles.entries(resources, subjects, resource_pattern_type)
    else:
        operations = _operations(operation) or [Operation.ALL]
        entries = new_entries(resources, operations, subjects, resource_pattern_type)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        Acls(cluster).create(entries)
    for entry in entries:
        say(f"Added: {describe_entry(entry)}.")


@app.command()
def remove(
    allow_principal: options.AllowPrincipals = None,
    deny_principal: options.DenyPrincipals = None,
    allow_host: options.AllowHosts = None,
    deny_host: options.DenyHosts = None,
    operation: options.Operations = None,
    topic: options.Topics = None,
    group: options.Groups = None,
    cluster_resource: options.OnCluster = False,
    transactional_id: options.TransactionalIds = None,
    delegation_token: options.DelegationTokens = None,
    user_principal: options.UserPrincipals = None,
    resource_pattern_type: Annotated[
        FilterPattern,
        typer.Option(
            "--resource-pattern-type",
            case_sensitive=False,
            help="Patterns to remove: match removes every ACL that applies to the resource.",
        ),
    ] = FilterPattern.LITERAL,
    producer: options.ForProducer = False,
    consumer: options.ForConsumer = False,
    idempotent: options.Idempotent = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", "--force", help="Do not prompt for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Remove ACLs. What is not specified matches everything: without --operation, ACLs for each operation."""
    resources = selected_resources(topic, group, cluster_resource, transactional_id, delegation_token, user_principal)
    if producer or consumer or idempotent:
        wanted = _filters_of_roles(
            Roles(producer, consumer, idempotent),
            resources,
            operation,
            resource_pattern_type,
            options.selected_subjects(allow_principal, allow_host, deny_principal, deny_host),
        )
    else:
        subjects = options.filtered_subjects(allow_principal, allow_host, deny_principal, deny_host)
        if not resources and all(subject.principal is None for subject in subjects):
            raise UserError(f"{_NEEDS_RESOURCE} or a principal: --allow-principal or --deny-principal.")
        wanted = filters_of(resources, _operations(operation), subjects, resource_pattern_type)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        acls = Acls(cluster)
        found = acls.list(wanted)
        if not found:
            raise UserError("No ACL matches. `odradek acl list` shows all ACLs.")
        if not yes and is_terminal(sys.stdin):
            for entry in found:
                say(describe_entry(entry))
            typer.confirm(f"Remove {_count(found)}?", abort=True, err=True)
        acls.delete(found)
    for entry in found:
        say(f"Removed: {describe_entry(entry)}.")


@app.command()
def test(
    principal: CheckedPrincipal,
    operation: CheckedOperation,
    resource: CheckedResource,
    host: CheckedHost = None,
    super_users: SuperUsers = None,
    allow_without_acl: AllowWithoutAcl = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Test whether a principal may perform an operation. The exit status is 0 if it may, and 1 if it may not."""
    check = _check(principal, operation, resource, host)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        facts = explain_check(cluster, check, _given_super_users(super_users), allow_without_acl)
    allowed = facts.explanation.decision.allowed
    warn_of_unknown_configs(facts)
    verb = "may" if allowed else "may not"
    described = describe_permission(check.operation, check.resource_type, check.name)
    print(neutralise(f"{principal} {verb} {described}."))
    if not allowed:
        raise typer.Exit(1)


@app.command()
def explain(
    principal: CheckedPrincipal,
    operation: CheckedOperation,
    resource: CheckedResource,
    host: CheckedHost = None,
    super_users: SuperUsers = None,
    allow_without_acl: AllowWithoutAcl = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show the rule that decides whether a principal may perform an operation, and what would allow it."""
    check = _check(principal, operation, resource, host)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        facts = explain_check(cluster, check, _given_super_users(super_users), allow_without_acl)
    print_explanation(facts, format)


def _check(principal: str, operation: str, resource: str, host: str | None) -> AccessCheck:
    options.check_principal(principal, "--principal")
    parsed = options.parse_resource(resource)
    checked = options.parse_operation(operation)
    if checked is Operation.ALL:
        raise UserError("--operation: requests perform single operations. Choose one, such as Read.")
    options.check_operation(checked, parsed.type)
    address = ANY_HOST if host is None else options.parse_host(host, "--host")
    return AccessCheck(principal, address, checked, parsed.type, parsed.name)


def _given_super_users(text: str | None) -> frozenset[str] | None:
    return None if text is None else parse_super_users(text)


def _operations(texts: Sequence[str] | None) -> list[Operation]:
    return [options.parse_operation(text) for text in dict.fromkeys(texts or ())]


def _filters_of_roles(
    roles: Roles,
    resources: Sequence[Resource],
    operations: Sequence[str] | None,
    pattern: FilterPattern,
    subjects: Sequence[options.Subject],
) -> list[AclFilter]:
    if pattern not in (FilterPattern.LITERAL, FilterPattern.PREFIXED):
        raise UserError("--producer and --consumer remove literal or prefixed ACLs.")
    roles.check(resources, operations or (), subjects)
    return [AclFilter.exactly(entry) for entry in roles.entries(resources, subjects, AddedPattern[pattern.name])]


def _count(entries: Sequence[AccessControlEntry]) -> str:
    return "1 ACL" if len(entries) == 1 else f"{len(entries)} ACLs"
