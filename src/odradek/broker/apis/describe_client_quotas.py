"""DescribeClientQuotas, versions 0 and 1: the limits of the users, client IDs and IP addresses that match a filter."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.slices import Slices
from odradek.broker.ports import BrokerPort
from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.entities import ENTITY_TYPES, IP
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType
from odradek.server.context import RequestContext
from odradek.wire.schemas import Message

SLICE_ENTITIES: Final = 1000
_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


class _Filter:
    """An entity matches if it has all the names and types; a strict filter excludes entities with further types."""

    def __init__(self, request: Message) -> None:
        """Raises KafkaError."""
        self._names: Final[dict[str, str | None]] = {}
        self._types: Final[set[str]] = set()
        self._is_strict: Final[bool] = request.strict
        for component in request.components:
            self._add(component)
        filtered = self._names.keys() | self._types
        if IP in filtered and len(filtered) > 1:
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            )

    def _add(self, component: Message) -> None:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in self._names or kind in self._types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        if component.match_type == _EXACT:
            if component.match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            self._names[kind] = component.match
        elif component.match_type == _DEFAULT:
            if component.match is not None:
                raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
            self._names[kind] = None
        elif component.match_type == _SPECIFIED:
            if component.match is not None:
                raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
            self._types.add(kind)
        else:
            raise _invalid(f"Unknown match type {component.match_type}")

    def matches(self, entity: QuotaEntityKey) -> bool:
        if self._is_strict and len(entity) != len(self._names) + len(self._types):
            return False
        parts = dict(entity)
        return self._types <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self._names.items()
        )


def handle(request: Message, context: RequestContext, broker: BrokerPort) -> Message | Awaitable[Message]:
    if not context.access.allows(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return _response(context, None, KafkaError(ErrorCode.cluster_authorization_failed))
    try:
        wanted = _Filter(request)
    except KafkaError as error:
        return _response(context, None, error)
    return broker.slice_turns.start(_describe(wanted, context, broker))


def _describe(wanted: _Filter, context: RequestContext, broker: BrokerPort) -> Slices[Message]:
    entries: list[Message] = []
    for number, (entity, limits) in enumerate(broker.image.client_quotas.items(), 1):
        if wanted.matches(entity):
            entries.append(
                context.new(
                    "EntryData",
                    entity=tuple(
                        context.new("EntityData", entity_type=kind, entity_name=name) for kind, name in entity
                    ),
                    values=tuple(context.new("ValueData", key=key, value=value) for key, value in limits.items()),
                )
            )
        if number % SLICE_ENTITIES == 0:
            yield
    return _response(context, tuple(entries), None)


def _response(context: RequestContext, entries: tuple[Message, ...] | None, error: KafkaError | None) -> Message:
    return context.new(
        "DescribeClientQuotasResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none if error is None else error.code,
        # Kafka's message of a success is empty, not null.
        error_message="" if error is None else error.message,
        entries=entries,
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
