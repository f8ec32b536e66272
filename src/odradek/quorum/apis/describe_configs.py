"""DescribeConfigs, versions 1 to 4, as brokers answer it; the node described is the controller that is asked."""

from collections.abc import Awaitable
from typing import Final

from odradek.config.dynamic import overlay
from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis import describe_configs
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message


class _InForce:
    """A controller with its dynamic settings, which it looks up when it is asked."""

    def __init__(self, node: ControllerNodePort) -> None:
        self.image: Final = node.image
        self.node_id: Final = node.node_id
        self.config: Final = overlay(
            node.config, self.image.broker_config(self.node_id), self.image.default_broker_config()
        )


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Awaitable[Message]:
    return describe_configs.handle(request, context, _InForce(node))
