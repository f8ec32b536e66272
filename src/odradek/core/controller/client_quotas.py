"""AlterClientQuotas: checks entities, keys and values, and writes only the limits that change."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.bounded_records import BoundedRecords
from odradek.core.controller.commands import ControllerResult, QuotaAlteration
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.metadata.records import ClientQuotaRecord, QuotaEntity
from odradek.core.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    describe_entity,
)

_FRACTION_MAX: Final = 1e-6
# Numbers are dotted addresses; a name has at least one letter.
_HOST_NAME: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_]([A-Za-z0-9_.-]{0,253}[A-Za-z0-9_.])?")


class _Kind(Enum):
    """Kafka's types of numbers."""

    DOUBLE = 0.0
    INT = float(2**31 - 1)
    LONG = float(2**63 - 1)


_USER_AND_CLIENT_KINDS: Final[Mapping[str, _Kind]] = {
    PRODUCER_BYTE_RATE: _Kind.LONG,
    CONSUMER_BYTE_RATE: _Kind.LONG,
    REQUEST_PERCENTAGE: _Kind.DOUBLE,
    CONTROLLER_MUTATION_RATE: _Kind.DOUBLE,
}
_IP_KINDS: Final[Mapping[str, _Kind]] = {CONNECTION_CREATION_RATE: _Kind.INT}


class ClientQuotas:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> ControllerResult[Mapping[QuotaEntityKey, KafkaError | None]]:
        """An invalid alteration changes nothing; the others take effect together."""
        records = BoundedRecords()
        results: dict[QuotaEntityKey, KafkaError | None] = {}
        for entity, changes in alterations:
            if entity in results or len({key for key, _ in changes}) < len(changes):
                # Kafka has a message for a duplicate key, and replaces it by this one.
                results[entity] = _invalid(f"Ignoring duplicate entity {describe_entity(entity)}")
                continue
            try:
                records.extend(self._records_of(entity, changes))
                results[entity] = None
            except KafkaError as error:
                results[entity] = error
            records.check()
        return ControllerResult(() if validate_only else tuple(records), results)

    def _records_of(
        self, entity: QuotaEntityKey, changes: Sequence[tuple[str, float | None]]
    ) -> list[ClientQuotaRecord]:
        kinds = _valid_keys(entity)
        current = self._state.image.client_quotas.get(entity) or {}
        parts = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
        records = []
        for key, value in changes:
            if value is None:
                if key in current:
                    records.append(ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True))
                continue
            _check_value(kinds, key, value)
            if current.get(key) != value:
                records.append(ClientQuotaRecord(entity=parts, key=key, value=value, remove=False))
        return records


def _valid_keys(entity: QuotaEntityKey) -> Mapping[str, _Kind]:
    """The keys that such an entity may have. Raises KafkaError for an invalid entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return _USER_AND_CLIENT_KINDS
    if USER in names or CLIENT_ID in names:
        # The missing space is Kafka's.
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names[IP]
    if address is not None and not _is_host(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KINDS


def _is_host(text: str) -> bool:
    """Whether it is an IP address, or formed like a host name: only brokers resolve names."""
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True


def _check_value(kinds: Mapping[str, _Kind], key: str, value: float) -> None:
    kind = kinds.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0.0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if kind is _Kind.DOUBLE:
        return
    if value > kind.value:
        article = "an" if kind is _Kind.INT else "a"
        raise _invalid(f"Proposed value for {key} is too large for {article} {kind.name}.")
    if value % 1.0 > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
