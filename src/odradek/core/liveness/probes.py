"""What a probe of a broker's port says, and which port of a registration is probed."""

from enum import Enum, auto
from typing import NamedTuple

from odradek.core.metadata.image import BrokerImage


class ProbeResult(Enum):
    REFUSED = auto()
    """Connection refused: no process listens, or something on the way rejects the connection."""
    CONNECTED = auto()
    UNREACHABLE = auto()
    """A timeout, no route or an unknown host name: no evidence about the process."""


class RegisteredEndpoint(NamedTuple):
    """The inter-broker endpoint of one registration. Another process, or another endpoint, is another one."""

    broker_id: int
    broker_epoch: int
    host: str
    port: int


def find_registered_endpoint(broker: BrokerImage, inter_broker_listener_name: str) -> RegisteredEndpoint | None:
    """None: the broker's inter-broker endpoint is unknown."""
    endpoint = broker.inter_broker_endpoint(inter_broker_listener_name)
    return None if endpoint is None else RegisteredEndpoint(broker.id, broker.epoch, endpoint.host, endpoint.port)
