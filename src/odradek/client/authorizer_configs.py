"""Reads the configs that decide about a client besides ACLs, as far as the cluster shows them."""

from dataclasses import dataclass
from typing import Final

from odradek.base.errors import KafkaError
from odradek.client.admin import Admin, ConfigValue, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.permissions import AUTHORIZATION_ERRORS

SUPER_USERS: Final = "super.users"
ALLOW_WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerConfigs:
    """None: unknown. Brokers hide the values of these configs from all clients once they are set, as in Kafka."""

    super_users: frozenset[str] | None
    allows_without_acl: bool | None
    may_be_read: bool
    """False: the client may not read the brokers' configs at all."""


def read_authorizer_configs(cluster: Cluster) -> AuthorizerConfigs:
    """Of one broker: all nodes need the same values."""
    broker = min(cluster.retry("looking up brokers", cluster.layout).brokers)
    try:
        found = Admin(cluster).configs(Resource(ResourceType.BROKER, str(broker)), (SUPER_USERS, ALLOW_WITHOUT_ACL))
    except KafkaError as error:
        if error.code not in AUTHORIZATION_ERRORS:
            raise
        return AuthorizerConfigs(super_users=None, allows_without_acl=None, may_be_read=False)
    return known_values(found)


def known_values(configs: list[ConfigValue]) -> AuthorizerConfigs:
    """A config that is not described is not set, which means no super users and no access without an ACL."""
    values = {config.name: config.value for config in configs}
    users, default = values.get(SUPER_USERS, ""), values.get(ALLOW_WITHOUT_ACL, "false")
    return AuthorizerConfigs(
        super_users=None if users is None else parse_super_users(users),
        allows_without_acl=None if default is None else default.strip().lower() == "true",
        may_be_read=True,
    )


def parse_super_users(text: str) -> frozenset[str]:
    """As the brokers read the config."""
    return frozenset(filter(None, (user.strip() for user in text.split(";"))))
