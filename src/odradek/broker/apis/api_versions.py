"""ApiVersions, versions 0 to 4: what brokers serve."""

from odradek.broker.ports import BrokerPort
from odradek.server.apis.served_versions import api_versions_response
from odradek.server.context import RequestContext
from odradek.wire.apis import broker_apis
from odradek.wire.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    two_phase_commit = broker.config.effective("transaction.two.phase.commit.enable")
    return api_versions_response(request, context, broker_apis(two_phase_commit=bool(two_phase_commit)), broker.image)
