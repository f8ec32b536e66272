"""ApiVersions, versions 0 to 4: what brokers serve."""

from odradek.handlers.apis import broker_apis
from odradek.handlers.context import BrokerPort, RequestContext
from odradek.handlers.served_versions import served_versions
from odradek.protocol.schemas import Message


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message:
    return served_versions(request, context, broker_apis(broker.config), broker.image)
