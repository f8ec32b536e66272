"""ApiVersions, versions 0 to 4: what controllers serve."""

from odradek.handlers.apis import CONTROLLER_NODE_APIS
from odradek.handlers.context import ControllerNodePort, RequestContext
from odradek.handlers.served_versions import served_versions
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    return served_versions(request, context, CONTROLLER_NODE_APIS, node.image)
