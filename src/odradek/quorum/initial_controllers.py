"""The initial voters of a quorum on a command line: `id@host:port:directory`, separated by commas.

The same text is given to every node that is formatted with it. Refusals are in the words of Apache Kafka's own tool.
"""

import re
from typing import NamedTuple
from uuid import UUID

from odradek.base.ids import uuid_from_text, uuid_to_text
from odradek.core.metadata.directories import RESERVED_MAX

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


class InitialController(NamedTuple):
    node_id: int
    host: str
    port: int
    directory_id: UUID

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_id}@{host}:{self.port}:{uuid_to_text(self.directory_id)}"


def parse_initial_controllers(text: str) -> tuple[InitialController, ...]:
    """Sorted by ID. Raises ValueError."""
    found: dict[int, InitialController] = {}
    for part in filter(None, text.strip().split(",")):
        one = _parse(part.strip())
        if one.node_id in found:
            raise ValueError(f"Node id {one.node_id} was specified more than once.")
        found[one.node_id] = one
    if not found:
        raise ValueError("No voters given.")
    return tuple(found[node_id] for node_id in sorted(found))


def _parse(text: str) -> InitialController:
    node_id_text, at, address = text.partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    if not node_id_text:
        raise ValueError("Invalid @ at beginning of dynamic voter string.")
    node_id = _number(node_id_text, "node id")
    if node_id < 0:
        raise ValueError(f"Invalid negative node id {node_id} in dynamic voter string.")
    host, rest = _split_host(address)
    port_text, colon, directory_text = rest.removeprefix(":").partition(":")
    if not colon:
        raise ValueError("No colon following port could be found.")
    port = _number(port_text, "port")
    if not 0 <= port <= 65535:
        raise ValueError(f"Invalid port {port} in dynamic voter string.")
    return InitialController(node_id, host, port, _directory_id(directory_text))


def _split_host(address: str) -> tuple[str, str]:
    """The host, and the rest from the colon."""
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        if not bracket:
            raise ValueError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise ValueError("Port section must start with a colon.")
    else:
        host, colon, rest = address.partition(":")
        if host and not colon:
            raise ValueError("No colon following hostname could be found.")
        rest = colon + rest
    if not host:
        raise ValueError("No hostname found after node id.")
    return host, rest


def _number(text: str, what: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"Failed to parse {what} in dynamic voter string.")
    return int(text)


def _directory_id(text: str) -> UUID:
    try:
        directory_id = uuid_from_text(text)
    except ValueError:
        raise ValueError("Failed to parse directory ID in dynamic voter string.") from None
    if directory_id.int < RESERVED_MAX:
        # Kafka accepts it, and then has a voter with a reserved directory ID.
        raise ValueError(f"The directory ID {text} in dynamic voter string is reserved: choose a random one.")
    return directory_id
