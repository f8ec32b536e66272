"""The parts that registrations of brokers and of controllers share: endpoints and supported features."""

from odradek.core.metadata.records import Endpoint, SupportedFeature
from odradek.wire.schemas import Message


def endpoints_of(request: Message) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in request.listeners
    )


def features_of(request: Message) -> tuple[SupportedFeature, ...]:
    return tuple(
        SupportedFeature(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in request.features
    )
