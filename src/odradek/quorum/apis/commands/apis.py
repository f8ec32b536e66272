"""Which module answers which request to the controller. Imported on first use, as the broker's are."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Protocol

from odradek.base.errors import KafkaError
from odradek.core.controller.commands import ControllerCommands
from odradek.core.controller.decision import Decision
from odradek.wire.schemas import Message, Schema

CONTROLLER_APIS: Final[Mapping[int, str]] = {
    19: "create_topics",
    20: "delete_topics",
    33: "alter_configs",
    37: "create_partitions",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    56: "alter_partition",
    57: "update_features",
    62: "broker_registration",
    63: "broker_heartbeat",
    64: "unregister_broker",
    67: "allocate_producer_ids",
    70: "controller_registration",
    73: "assign_replicas_to_dirs",
}


class ControllerHandler(Protocol):
    def handle(
        self, request: Message, messages: Schema, controller: ControllerCommands, now: float
    ) -> Decision[Message]: ...

    def refuse(self, request: Message, messages: Schema, error: KafkaError) -> Message: ...


def load_handler(api_key: int) -> ControllerHandler:
    """Raises KeyError for an API that controllers do not serve."""
    handler: Any = import_module(f"odradek.quorum.apis.commands.{CONTROLLER_APIS[api_key]}")
    found: ControllerHandler = handler
    return found
