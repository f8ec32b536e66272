"""A controller node as its API modules see it."""

from collections.abc import Callable
from typing import Protocol

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands, ControllerResult, DeadProcess, Registration
from odradek.server.context import ConnectionPort, NodePort
from odradek.wire.schemas import Message, Schema

Execute = Callable[[Message, Schema, ControllerCommands], ControllerResult[Message]]
"""Executes the command of a request on the active controller. May raise KafkaError."""
BuildErrorResponse = Callable[[Message, Schema, KafkaError], Message]


class QuorumPort(Protocol):
    """This node's replica of the metadata log, which serves the APIs of the Raft protocol."""

    @property
    def leader_id(self) -> int:
        """-1 while no leader is known."""

    @property
    def voter_ids(self) -> list[int]: ...

    async def handle(self, api_key: int, version: int, request: Message, listener_name: str) -> Message:
        """Takes and returns kio messages of this API and version. Endpoints in the response are of that listener."""


class CommandPort(Protocol):
    """This node's controller, active or not."""

    async def handle(
        self, request: Message, messages: Schema, execute: Execute, build_error_response: BuildErrorResponse
    ) -> Message:
        """Returns the command's response once its records, and all records before them, are committed.

        The error of an error response is that of the command, or NOT_CONTROLLER while another controller is active.
        """


class ControllerNodePort(NodePort, Protocol):
    """A controller node, active or not. Its `config` is the one with which the node started."""

    @property
    def quorum(self) -> QuorumPort: ...

    @property
    def controller(self) -> CommandPort: ...

    async def find_dead_process(self, registration: Registration, peer_host: str | None) -> DeadProcess | None:
        """The process that is registered with this broker ID, if it is dead although its session is alive.

        `peer_host` is the address that the registration comes from. None: it comes from within this node.
        """

    def on_heartbeat(self, broker_id: int, broker_epoch: int, connection: ConnectionPort) -> None:
        """The controller accepted a heartbeat that arrived on this connection."""
