"""A node of the metadata quorum as the handlers of its controller listeners see it."""

from typing import Protocol

from odradek.server.context import ConnectionPort, NodePort
from odradek.wire.schemas import Message


class QuorumPort(Protocol):
    """This node's part in the metadata quorum, as it is asked by others."""

    @property
    def leader_id(self) -> int:
        """-1 while nobody is known to lead."""

    async def answer(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        """Takes and gives kio messages of exactly this API and version. Addresses are given for that listener."""


class ControllerNodePort(NodePort, Protocol):
    """A node of the metadata quorum as the handlers of its controller listeners see it, whether or not it leads.

    Its config is as it was when the node started. Its controller is this node's own, which refuses with NOT_CONTROLLER
    while another one is active.
    """

    @property
    def quorum(self) -> QuorumPort: ...

    def heard_from(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        """A heartbeat was accepted that came on this connection."""
