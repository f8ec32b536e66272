"""Endpoints in requests: one per listener. Listener names are upper case, as in Kafka."""

from collections.abc import Iterable
from typing import Final

from odradek.records.control import VoterEndpoint
from odradek.wire.schemas import Message, MessageClass

ENDPOINTS_MAX: Final = 64
NAME_LENGTH_MAX: Final = 255
"""Length of a listener name or host."""


def read_endpoints(listeners: Iterable[Message]) -> tuple[VoterEndpoint, ...]:
    """One per listener name; the last one wins."""
    by_name = {one.name.upper(): (one.host, one.port) for one in listeners}
    return tuple(VoterEndpoint(name=name, host=host, port=port) for name, (host, port) in by_name.items())


def are_reasonable(endpoints: tuple[VoterEndpoint, ...]) -> bool:
    """Stricter than Kafka: the Voters record must fit into one batch."""
    return len(endpoints) <= ENDPOINTS_MAX and all(
        len(one.name) <= NAME_LENGTH_MAX and len(one.host) <= NAME_LENGTH_MAX for one in endpoints
    )


def write_endpoints(listener: MessageClass, endpoints: Iterable[VoterEndpoint]) -> tuple[Message, ...]:
    return tuple(listener(name=one.name, host=one.host, port=one.port) for one in endpoints)
