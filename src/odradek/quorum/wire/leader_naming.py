"""The leader, its epoch and its address in a response.

There is one address: that of the listener on which the request arrived. The reader uses it for the listener by which
it connects to controllers.
"""

from typing import Final, TypeVar

from odradek.base.errors import ErrorCode
from odradek.core.raft.messages import LeaderNaming
from odradek.records.control import VoterEndpoint
from odradek.wire.schemas import Message, Schema

_PORT_MAX: Final = 65535

Naming = TypeVar("Naming", bound=LeaderNaming)


def without_leader(kind: type[Naming], error: ErrorCode) -> Naming:
    """A response without leader: an error that does not depend on the quorum, or a response about something else."""
    return kind(error=ErrorCode.unknown_server_error if error is ErrorCode.none else error)


def with_leader(kind: type[Naming], error: ErrorCode, leader: Message, endpoints: tuple[VoterEndpoint, ...]) -> Naming:
    return kind(error=error, leader_id=leader.leader_id, leader_epoch=leader.leader_epoch, leader_endpoints=endpoints)


def address_on(response: LeaderNaming, listener_name: str) -> VoterEndpoint | None:
    if response.leader_id < 0:
        return None
    return next((one for one in response.leader_endpoints if one.name == listener_name), None)


def write_node_endpoints(schema: Schema, response: LeaderNaming, listener_name: str) -> tuple[Message, ...]:
    address = address_on(response, listener_name)
    if address is None or not schema.knows("NodeEndpoint"):
        return ()
    return (schema.new("NodeEndpoint", node_id=response.leader_id, host=address.host, port=address.port, rack=None),)


def read_node_endpoints(response: Message, leader_id: int, listener_name: str) -> tuple[VoterEndpoint, ...]:
    nodes = getattr(response, "node_endpoints", None) or ()
    node = next((one for one in nodes if one.node_id == leader_id), None)
    return () if node is None else read_address(node, listener_name)


def read_address(node: Message, listener_name: str) -> tuple[VoterEndpoint, ...]:
    """Empty if the address is invalid."""
    if not node.host or not 0 < node.port <= _PORT_MAX:
        return ()
    return (VoterEndpoint(name=listener_name, host=node.host, port=node.port),)
