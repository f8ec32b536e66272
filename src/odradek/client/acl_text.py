"""ACLs in words, and as the `odradek acl` commands that add and remove them."""

import shlex
from collections.abc import Mapping
from typing import Final

from odradek.core.security.acl_entry import AccessControlEntry
from odradek.core.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType, name_of

OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.CLUSTER: "--cluster",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""By the type of a resource, as in kafka-acls."""
_NOUNS: Final[Mapping[int, str]] = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional ID",
    ResourceType.DELEGATION_TOKEN: "delegation token",
    ResourceType.USER: "user",
}


def spell_operation(operation: int) -> str:
    """As in Kafka's documentation: `DescribeConfigs`."""
    return "".join(word.capitalize() for word in name_of(Operation, operation).split("_"))


def name_resource(resource_type: int, name: str) -> str:
    """`topic orders`, `the cluster`."""
    if resource_type == ResourceType.CLUSTER:
        return "the cluster"
    return f"{_NOUNS.get(resource_type, 'resource')} {name}"


def describe_permission(operation: Operation, resource_type: int, name: str) -> str:
    """`WRITE to topic orders`, as a verb with its object."""
    link = " to " if operation is Operation.WRITE else " on " if "_" in operation.name else " "
    return operation.name + link + name_resource(resource_type, name)


def describe_entry(entry: AccessControlEntry) -> str:
    """`ALLOW READ on topic orders to User:ann from all hosts`."""
    permission = name_of(Permission, entry.permission_type)
    hosts = "all hosts" if entry.host == WILDCARD else f"host {entry.host}"
    return (
        f"{permission} {name_of(Operation, entry.operation)} on {_describe_pattern(entry)} to {entry.principal}"
        f" from {hosts}"
    )


def _describe_pattern(entry: AccessControlEntry) -> str:
    if entry.resource_type == ResourceType.CLUSTER:
        return "the cluster"
    noun = _NOUNS.get(entry.resource_type, "resource")
    if entry.pattern_type != PatternType.LITERAL:
        return f"every {noun} that starts with {entry.resource_name}"
    return f"every {noun}" if entry.resource_name == WILDCARD else f"{noun} {entry.resource_name}"


def add_command(entry: AccessControlEntry) -> str:
    """The command that adds the ACL."""
    return _command("add", entry, names_host=entry.host != WILDCARD)


def remove_command(entry: AccessControlEntry) -> str:
    """The command that removes this ACL and no other."""
    return _command("remove", entry, names_host=True)


def _command(verb: str, entry: AccessControlEntry, *, names_host: bool) -> str:
    permission = "allow" if entry.permission_type == Permission.ALLOW else "deny"
    words = ["odradek", "acl", verb, f"--{permission}-principal", entry.principal]
    if names_host:
        words += [f"--{permission}-host", entry.host]
    words += ["--operation", spell_operation(entry.operation), *_resource_words(entry)]
    return shlex.join(words)


def _resource_words(entry: AccessControlEntry) -> list[str]:
    option = OPTIONS[ResourceType(entry.resource_type)]
    if entry.resource_type == ResourceType.CLUSTER:
        return [option]
    words = [option, entry.resource_name]
    return words if entry.pattern_type == PatternType.LITERAL else [*words, "--resource-pattern-type", "prefixed"]
