"""What clients of a secured cluster did: logins, requests with their results, and changes of credentials.

Every event has a floor: the offset of the metadata that the node had applied, and reported, when the client began.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.core.security.resources import Operation, ResourceType

NO_OFFSET: Final = -1


class Check(NamedTuple):
    """An operation on a resource that a request needs."""

    operation: Operation
    resource_type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource_type.name} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A request that a broker, or the active controller, allowed or denied."""

    user: str
    host: str
    """The client's address."""
    node: str
    api: str
    any_of: tuple[Check, ...]
    """One of these is enough."""
    is_allowed: bool
    began: float
    ended: float
    floor: int

    def __str__(self) -> str:
        what = " or ".join(map(str, self.any_of))
        return f"{self.api} of {self.user} from {self.host} at {self.node}, which needs {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """The password is the text of a test, not a secret."""

    user: str
    password: str
    node: str
    is_accepted: bool
    began: float
    ended: float
    floor: int
    former_user: str | None = None
    """The user of the connection, which authenticates again."""

    def __str__(self) -> str:
        again = "" if self.former_user is None else f" on a connection of {self.former_user}"
        return f"login of {self.user} with {self.password} at {self.node}{again}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A request that a quota may limit, or whose response has a throttle time."""

    user: str
    client_id: str
    node: str
    run: int
    """Of the node, which forgets what clients used when it ends."""
    quota_key: str | None
    """The quota that limits such requests. None: no quota of this run does."""
    size_bytes: int
    """At least so many of the request count."""
    throttle_ms: int
    began: float
    ended: float
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrusion:
    """A response to a client that was not authenticated, or no longer."""

    node: str
    what: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCreated:
    user: str
    """Who sent the request."""
    node: str
    owner: str
    """The principals in the response."""
    requester: str
    token_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """A login with a delegation token before its end."""

    user: str
    node: str
    token_id: str
    is_accepted: bool
    ended: float
    floor: int


@dataclass(slots=True)
class SecurityHistory:
    floor_of: Callable[[str], int] = lambda node: NO_OFFSET
    """The offset that this node has applied and reported."""
    controller_floor: Callable[[], int] = lambda: NO_OFFSET
    """The least of the controllers: one that is no longer active may deny a forwarded request."""
    run_of: Callable[[str], int] = lambda node: 0
    """How often this node has started."""
    decisions: Final[list[Decision]] = field(default_factory=list)
    logins: Final[list[LoginAttempt]] = field(default_factory=list)
    usages: Final[list[Usage]] = field(default_factory=list)
    intrusions: Final[list[Intrusion]] = field(default_factory=list)
    tokens: Final[list[TokenCreated]] = field(default_factory=list)
    token_logins: Final[list[TokenLogin]] = field(default_factory=list)
    password_of_salt: Final[dict[bytes, str]] = field(default_factory=dict)
    passwords: Final[dict[str, list[str]]] = field(default_factory=dict)
    """User -> the passwords that an admin client has set, or tried to set, the newest last."""
