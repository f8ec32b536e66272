"""Metrics of authentications on listeners with SASL."""

from collections.abc import Mapping
from typing import Final

from odradek.instruments.authentication import AuthenticationCounts
from odradek.observe.families import Family, attribute

_TOTALS: Final = {
    "successful-authentication-total": "successful",
    "failed-authentication-total": "failed",
    "successful-reauthentication-total": "successful_reauthentications",
    "failed-reauthentication-total": "failed_reauthentications",
    "expired-connections-killed-count": "expired_connections",
}


def authentication_families(listeners: Mapping[str, AuthenticationCounts]) -> list[Family]:
    return [
        attribute(
            "socket-server-metrics",
            name,
            (({"listener": listener}, getattr(counts, field)) for listener, counts in listeners.items()),
        )
        for name, field in _TOTALS.items()
        if listeners
    ]
