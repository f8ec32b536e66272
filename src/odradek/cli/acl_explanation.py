"""Explains the decision about one operation: fetches the ACLs and configs, decides locally, and prints the result."""

from typing import Any, NamedTuple

from odradek.client.acl_text import add_command, describe_entry, describe_permission, name_resource, remove_command
from odradek.client.acls import Acls
from odradek.client.authorizer_configs import (
    ALLOW_WITHOUT_ACL,
    SUPER_USERS,
    AuthorizerConfigs,
    read_authorizer_configs,
)
from odradek.client.cluster import Cluster
from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.acl_filters import AclFilter
from odradek.core.security.authorizer import ANY_PRINCIPAL, Decision, Reason
from odradek.core.security.explanation import ANY_HOST, AccessCheck, Explanation, explain
from odradek.core.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType, name_of
from odradek.text.output import OutputFormat, print_json
from odradek.text.terminal import neutralise, say


class Facts(NamedTuple):
    explanation: Explanation
    configs: AuthorizerConfigs
    """With the values that the user has given."""
    entries: list[AccessControlEntry]
    """About the resource."""


def explain_check(
    cluster: Cluster, check: AccessCheck, super_users: frozenset[str] | None, allows_without_acl: bool | None
) -> Facts:
    """The given values, unless they are None, replace those of the cluster. Unknown ones count as not set."""
    read = read_authorizer_configs(cluster)
    configs = AuthorizerConfigs(
        super_users=read.super_users if super_users is None else super_users,
        allows_without_acl=read.allows_without_acl if allows_without_acl is None else allows_without_acl,
        may_be_read=read.may_be_read,
    )
    about_resource = AclFilter(
        check.resource_type.value,
        check.name,
        PatternType.MATCH.value,
        None,
        None,
        Operation.ANY.value,
        Permission.ANY.value,
    )
    entries = Acls(cluster).list([about_resource])
    explanation = explain(
        check, entries, configs.super_users or (), allows_without_acl=configs.allows_without_acl or False
    )
    return Facts(explanation, configs, entries)


def print_explanation(facts: Facts, format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        print_json(_as_json(facts))
        return
    check, decision = facts.explanation.check, facts.explanation.decision
    verb = "may" if decision.allowed else "may not"
    host = "" if check.host == ANY_HOST else f" from {check.host}"
    described = describe_permission(check.operation, check.resource_type, check.name)
    lines = [f"{check.principal} {verb} {described}{host}.", f"Rule: {_rule(facts)}"]
    lines += [f"To allow it: {command}" for command in commands(facts.explanation)]
    for line in (*lines, *_notes(facts)):
        print(neutralise(line))


def warn_of_unknown_configs(facts: Facts) -> None:
    for line in _unknown_configs(facts):
        say(f"warning: {line}")


def commands(explanation: Explanation) -> list[str]:
    """What has to be executed, all of it, to allow a denied operation."""
    removed = [remove_command(entry) for entry in explanation.denying]
    return removed if explanation.missing is None else [*removed, add_command(explanation.missing)]


def _rule(facts: Facts) -> str:
    explanation = facts.explanation
    check, decision = explanation.check, explanation.decision
    resource = name_resource(check.resource_type, check.name)
    match decision.reason:
        case Reason.SUPER_USER:
            return f"{check.principal} is a super user. ACLs do not apply to super users."
        case Reason.NO_MATCHING_ENTRY:
            return (
                f"ACLs about {resource} exist, but none allows {check.operation.name} to {check.principal}."
                f" {ALLOW_WITHOUT_ACL} does not apply then."
            )
        case Reason.NO_ENTRY:
            value = "true" if decision.allowed else "not true"
            return f"No ACL is about {resource}, and {ALLOW_WITHOUT_ACL} is {value}."
        case Reason.ENTRY:
            assert decision.entry is not None
            implied_by = explanation.implied_by
            implied = "" if implied_by is None else f" {implied_by.name} implies {check.operation.name}."
            wins = "" if decision.allowed else " DENY takes precedence over ALLOW."
            return f"ACL: {describe_entry(decision.entry)}.{implied}{wins}"


def _reason(decision: Decision) -> str:
    if decision.reason is Reason.ENTRY:
        return "ALLOW_ACL" if decision.allowed else "DENY_ACL"
    return {Reason.NO_MATCHING_ENTRY: "NO_MATCHING_ACL", Reason.NO_ENTRY: "NO_ACL"}.get(decision.reason, "SUPER_USER")


def _notes(facts: Facts) -> list[str]:
    check = facts.explanation.check
    notes = _unknown_configs(facts)
    if any(_affects_others(entry, check) for entry in facts.explanation.denying):
        notes.append("Removing an ACL for other principals or resources too changes what they may do.")
    if check.host == ANY_HOST and any(_is_for_host(entry, check) for entry in facts.entries):
        notes.append("ACLs for single addresses exist. Specify --host to include them.")
    return [f"Note: {note}" for note in notes]


def _unknown_configs(facts: Facts) -> list[str]:
    """Those that might change the result."""
    check, decision, configs = facts.explanation.check, facts.explanation.decision, facts.configs
    why = (
        "the brokers do not show its value" if configs.may_be_read else "this client may not read the brokers' configs"
    )
    notes = []
    if configs.super_users is None:
        notes.append(
            f"{SUPER_USERS} is unknown, because {why}. If it contains {check.principal}, everything is allowed."
            f" Specify its value with --super-users."
        )
    if configs.allows_without_acl is None and decision.reason is Reason.NO_ENTRY:
        notes.append(
            f"{ALLOW_WITHOUT_ACL} is unknown, because {why}. If it is true, the operation is allowed."
            f" Specify it with --{ALLOW_WITHOUT_ACL.replace('.', '-')}."
        )
    return notes


def _affects_others(entry: AccessControlEntry, check: AccessCheck) -> bool:
    is_for_one_name = entry.pattern_type == PatternType.LITERAL and entry.resource_name != WILDCARD
    return entry.principal != check.principal or not is_for_one_name


def _is_for_host(entry: AccessControlEntry, check: AccessCheck) -> bool:
    return entry.host != WILDCARD and entry.principal in (check.principal, ANY_PRINCIPAL)


def as_json(entry: AccessControlEntry) -> dict[str, str]:
    """With Kafka's names."""
    return {
        "resource_type": name_of(ResourceType, entry.resource_type),
        "resource_name": entry.resource_name,
        "pattern_type": name_of(PatternType, entry.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": name_of(Operation, entry.operation),
        "permission_type": name_of(Permission, entry.permission_type),
    }


def _as_json(facts: Facts) -> dict[str, Any]:
    explanation = facts.explanation
    check, decision = explanation.check, explanation.decision
    return {
        "allowed": decision.allowed,
        "principal": check.principal,
        "host": None if check.host == ANY_HOST else check.host,
        "operation": check.operation.name,
        "resource_type": check.resource_type.name,
        "resource_name": check.name,
        "reason": _reason(decision),
        "acl": None if decision.entry is None else as_json(decision.entry),
        "implied_by": None if explanation.implied_by is None else explanation.implied_by.name,
        "commands": commands(explanation),
        "unknown_configs": [
            name
            for name, value in (
                (SUPER_USERS, facts.configs.super_users),
                (ALLOW_WITHOUT_ACL, facts.configs.allows_without_acl),
            )
            if value is None
        ],
    }
