"""Who sent an HTTP request, and what that client may do.

A client authenticates with a user and a password, by HTTP Basic. Without them it is User:ANONYMOUS. As for requests on
Kafka listeners, the ACLs decide what a principal may do.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple

from odradek.base.ports import Executor, Pool
from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.security.access import UNRESTRICTED, Access, AuthorizerNotReady
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType

PASSWORD_CHARACTERS_MAX: Final = 4096

Authenticate = Callable[[str, str], Principal | None]
"""The principal of a user with this password; None: unknown user or wrong password. It runs in a thread."""
AccessOf = Callable[[Principal, str], Access]


class HttpDenied(Exception):
    """The request is denied with this HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status: Final = status


class HttpSecurity:
    """The ports of the node that decide about HTTP requests. The node sets them while it starts."""

    def __init__(self, *, has_authorizer: bool) -> None:
        self.has_authorizer: Final = has_authorizer
        self.access_of: AccessOf | None = None
        """None: the ACLs are not loaded yet."""
        self.authenticate: Authenticate | None = None
        """None: passwords are ignored, and every client is anonymous."""
        self.on_failure: Callable[[str, str, str], None] = lambda host, user, reason: None
        """Receives failed logins: address, user and reason."""


class HttpClient(NamedTuple):
    principal: Principal
    host: str
    access: Access
    can_authenticate: bool
    """Whether it may try again with a user and a password."""

    @property
    def is_local(self) -> bool:
        """Whether the request comes from this computer."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raises HttpDenied."""
        try:
            is_allowed = self.may(operation, resource_type, name)
        except AuthorizerNotReady:
            raise HttpDenied(503, "the ACLs are not loaded yet") from None
        if not is_allowed:
            what = "the cluster" if resource_type is ResourceType.CLUSTER else f"{resource_type.name.lower()} {name!r}"
            raise HttpDenied(
                401 if self.can_authenticate else 403, f"{self.principal} needs {operation.name} permission on {what}"
            )

    def check_cluster(self, operation: Operation) -> None:
        self.check(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, logs_denial: bool = True) -> bool:
        access = self.access
        return not access.is_restricted or access.allows(operation, resource_type, name, logs_denial=logs_denial)


async def access_of_request(
    basic: tuple[str, str] | None, host: str, security: HttpSecurity, executor: Executor
) -> HttpClient:
    """`basic` is the user and the password of the request, which came from this address. Raises HttpDenied."""
    if security.has_authorizer and security.access_of is None:
        raise HttpDenied(503, "the ACLs are not loaded yet")
    principal, authenticate = ANONYMOUS, security.authenticate
    if authenticate is not None and basic is not None:
        user, password = basic
        found = None
        if len(password) <= PASSWORD_CHARACTERS_MAX:
            found = await executor.run(lambda: authenticate(user, password), pool=Pool.CODEC)
        if found is None:
            security.on_failure(host, user, "unknown user or wrong password")
            raise HttpDenied(401, "unknown user or wrong password")
        principal = found
    access = UNRESTRICTED if security.access_of is None else security.access_of(principal, host)
    return HttpClient(principal, host, access, authenticate is not None and basic is None)
