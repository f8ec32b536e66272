"""What a handler receives with each request: the context, and the ports of the node that it may use."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from odradek.base.ports import Client, Clock, Executor
from odradek.base.principal import ANONYMOUS, Principal
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.core.quotas.node_quotas import UNLIMITED, ClientUsage, NodeQuotas
from odradek.core.security.access import UNRESTRICTED, Access
from odradek.instruments.requests import UNCOUNTED, RequestMeter
from odradek.server.slices import SliceTurns
from odradek.wire.schemas import Message, Schema


class CloseConnection:
    """Returned by a handler to close the connection, as Kafka does after a failed Produce request with acks=0."""


CLOSE_CONNECTION: Final = CloseConnection()

# A message of the request's version, or its encoded form; None: this request expects no response.
Response = Message | bytes | list[bytes] | CloseConnection | None


class ConnectionPort(Protocol):
    """The connection on which a request arrived."""

    @property
    def was_closed_here(self) -> bool:
        """Whether this node closed the connection. Only meaningful once it is closed."""

    @property
    def correlation_id(self) -> int | None:
        """Of the request that was handled last."""

    def on_close(self, listener: Callable[[], None]) -> None:
        """`listener` is called once, when the connection is closed; soon, if it is closed already. Idempotent."""


class NoConnection:
    """For a request from within the node. It is never closed."""

    was_closed_here = False
    correlation_id = None

    def on_close(self, listener: Callable[[], None]) -> None:
        """Never calls the listener."""


NO_CONNECTION: Final = NoConnection()


class RequestContext(NamedTuple):
    """The client, the API and its version: the same for all requests of a connection to that version."""

    api_key: int
    version: int
    client_id: str | None
    listener_name: str
    peer_host: str
    schema: Schema
    connection: ConnectionPort = NO_CONNECTION
    meter: RequestMeter = UNCOUNTED
    principal: Principal = ANONYMOUS
    access: Access = UNRESTRICTED
    """What `principal` may do from `peer_host`."""
    security_protocol: str = "PLAINTEXT"
    is_forwarded: bool = False
    """Whether a broker received the request from a client, and forwarded it to this controller."""
    usage: ClientUsage = UNLIMITED
    """Of the client's quotas. Only measured if the node has any."""

    @property
    def client(self) -> Client:
        return Client(self.client_id, self.peer_host, self.principal)

    def new(self, class_name: str, **values: object) -> Message:
        return self.schema[class_name](**values)


class HandlerAudit(Protocol):
    """Reports to the audit log what handlers do."""

    def add_to(self, api_key: int, handle: Callable[..., Any]) -> Callable[..., Any]:
        """The handler of this API, which also reports."""


class ServingPort(Protocol):
    """Any node that serves requests."""

    @property
    def audit(self) -> HandlerAudit | None:
        """None: there is no audit log."""

    @property
    def executor(self) -> Executor: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def client_quotas(self) -> NodeQuotas: ...

    @property
    def slice_turns(self) -> SliceTurns:
        """Runs long computations of requests on the event loop."""

    def access_of(self, principal: Principal, host: str) -> Access:
        """What the principal may do from this IP address; UNRESTRICTED without an authorizer."""


class ConfiguredNode(Protocol):
    """Any node, limited to its configuration and the metadata image."""

    @property
    def config(self) -> NodeConfig:
        """The effective configuration, including dynamic configs."""

    @property
    def node_id(self) -> int: ...

    @property
    def image(self) -> ClusterImage: ...


class NodePort(ServingPort, ConfiguredNode, Protocol):
    """What the handlers of brokers and of controllers need."""

    @property
    def cluster_id(self) -> str: ...
