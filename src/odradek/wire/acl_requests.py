"""Checks of CreateAcls and DeleteAcls requests that belong to decoding: Kafka cannot parse what fails them."""

from typing import Final

from odradek.wire.schemas import Message

_UNKNOWN: Final = 0


def has_unknown_codes(request: Message) -> bool:
    """Whether a type, an operation or a permission is UNKNOWN. Other codes that this version does not know are errors
    of their entry."""
    creations = getattr(request, "creations", ())
    filters = getattr(request, "filters", ())
    return any(
        _UNKNOWN in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
        for one in creations
    ) or any(
        _UNKNOWN in (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
        for one in filters
    )
