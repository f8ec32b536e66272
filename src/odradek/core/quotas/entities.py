"""What a client quota applies to and what it limits: the names of entity types and keys, as Kafka has them."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.core.metadata.image import QuotaEntityKey

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
USER_AND_CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)


def entity_key(parts: Iterable[tuple[str, str | None]]) -> QuotaEntityKey:
    """The key in the metadata image. If a type is named twice, the last one counts."""
    return tuple(sorted(dict(parts).items()))


def describe_entity(entity: QuotaEntityKey) -> str:
    """As Kafka's error messages print it."""
    entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{entries}}})"


def limits_of(quotas: Mapping[QuotaEntityKey, Mapping[str, float]], key: str) -> dict[QuotaEntityKey, float]:
    """The limits of one key, by entity."""
    return {entity: limits[key] for entity, limits in quotas.items() if key in limits}
