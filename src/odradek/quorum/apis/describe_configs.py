"""DescribeConfigs, versions 1 to 4, as on brokers; the node that it describes is this controller."""

from collections.abc import Awaitable
from typing import Final

from odradek.config.dynamic import overlay
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis import describe_configs
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


class _DynamicConfigNode:
    """This controller with its current dynamic configs."""

    def __init__(self, node: ControllerNodePort) -> None:
        self.image: Final = node.image
        self.node_id: Final = node.node_id
        self.config: Final = overlay(
            node.config, self.image.broker_config(self.node_id), self.image.default_broker_config()
        )


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return describe_configs.handle(request, context, _DynamicConfigNode(node))
