"""ApiVersions, versions 0 to 4: the APIs that controllers serve."""

from odradek.quorum.ports import ControllerNodePort
from odradek.server.apis.served_versions import api_versions_response
from odradek.server.context import RequestContext
from odradek.wire.apis import CONTROLLER_APIS
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, node: ControllerNodePort) -> Message:
    return api_versions_response(request, context, CONTROLLER_APIS, node.image)
