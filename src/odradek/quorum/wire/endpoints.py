"""Where replicas are, in requests: an address per listener. Names of listeners are upper case, as Kafka makes them."""

from collections.abc import Iterable
from typing import Final

from odradek.records.control import VoterEndpoint
from odradek.wire.schemas import Message, MessageClass

ENDPOINTS_MAX: Final = 64
NAME_LENGTH_MAX: Final = 255
"""Of a listener or a host."""


def read_endpoints(listeners: Iterable[Message]) -> tuple[VoterEndpoint, ...]:
    """One per name: the last one counts."""
    by_name = {one.name.upper(): (one.host, one.port) for one in listeners}
    return tuple(VoterEndpoint(name=name, host=host, port=port) for name, (host, port) in by_name.items())


def are_reasonable(endpoints: tuple[VoterEndpoint, ...]) -> bool:
    """Stricter than Kafka: a record of all voters has to fit into one batch."""
    return len(endpoints) <= ENDPOINTS_MAX and all(
        len(one.name) <= NAME_LENGTH_MAX and len(one.host) <= NAME_LENGTH_MAX for one in endpoints
    )


def write_endpoints(listener: MessageClass, endpoints: Iterable[VoterEndpoint]) -> tuple[Message, ...]:
    return tuple(listener(name=one.name, host=one.host, port=one.port) for one in endpoints)
