"""The parts of a registration that brokers and controllers share: listeners and supported features."""

from collections.abc import Iterable

from odradek.config.listeners import SECURITY_PROTOCOLS, Listener
from odradek.core.metadata.features import SUPPORTED_FEATURES
from odradek.wire.schemas import Message, Schema


def offered_listeners(messages: Schema, listeners: Iterable[Listener]) -> tuple[Message, ...]:
    return tuple(
        messages.new(
            "Listener",
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=SECURITY_PROTOCOLS.index(listener.security_protocol),
        )
        for listener in listeners
    )


def offered_features(messages: Schema) -> tuple[Message, ...]:
    return tuple(
        messages.new("Feature", name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
    )
