"""What a handler receives with each request, and the part of a node that every handler may use."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from odradek.base.ports import Client, Clock, Executor
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.image import ClusterImage
from odradek.instruments.requests import UNCOUNTED, RequestMeter
from odradek.wire.schemas import Message, Schema


class CloseConnection:
    """Returned by a handler whose only answer is to hang up, as Kafka does for a failed Produce with acks=0."""


CLOSE_CONNECTION: Final = CloseConnection()

# An entity of the request's version, or its encoded form; None: this request gets no answer.
Response = Message | bytes | list[bytes] | CloseConnection | None
Answer = Response | Awaitable[Any]


class ConnectionPort(Protocol):
    """The connection on which a request came."""

    @property
    def was_closed_here(self) -> bool:
        """Whether it was this node that ended it. Of meaning once it has ended."""

    def on_close(self, told: Callable[[], None]) -> None:
        """Called once, when the connection has ended; soon, if it has already. The same one is kept only once."""


class NoConnection:
    """Of a request that came without one, from within the node. It does not end."""

    was_closed_here = False

    def on_close(self, told: Callable[[], None]) -> None:
        """There is nothing to tell."""


NO_CONNECTION: Final = NoConnection()


class RequestContext(NamedTuple):
    """Who asks, and for what: the same for all requests of a client to one version of an API."""

    api_key: int
    version: int
    client_id: str | None
    listener_name: str
    peer_host: str
    schema: Schema
    connection: ConnectionPort = NO_CONNECTION
    meter: RequestMeter = UNCOUNTED

    @property
    def client(self) -> Client:
        return Client(self.client_id, self.peer_host)

    def new(self, class_name: str, **values: object) -> Message:
        return self.schema[class_name](**values)


class ServingPort(Protocol):
    """Any node that answers requests."""

    @property
    def executor(self) -> Executor: ...


class ConfiguredNode(Protocol):
    """Any node, as far as its settings and those of the cluster go."""

    @property
    def config(self) -> NodeConfig:
        """What is in force, dynamic settings included."""

    @property
    def node_id(self) -> int: ...

    @property
    def image(self) -> ClusterImage: ...


class NodePort(ServingPort, ConfiguredNode, Protocol):
    """What the handlers of brokers and of controllers both need."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def clock(self) -> Clock: ...
