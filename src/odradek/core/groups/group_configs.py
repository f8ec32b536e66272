"""Configs of a group (`kafka-configs --entity-type groups`), shared by all coordinators of a broker.

Every lookup returns the current value. If the broker's bounds were tightened since, the nearest bound replaces a value
outside of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from odradek.core.groups.settings import Bounds, GroupSettings

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
_NONE: Final[Mapping[str, str]] = {}


class GroupConfigs:
    def __init__(
        self,
        settings: GroupSettings,
        configs_of: Callable[[str], Mapping[str, str]] = lambda _: _NONE,
        assignment_interval_ms: Callable[[], int] | None = None,
    ) -> None:
        """`configs_of` returns the configs that are set for a group, which the controller has validated;
        `assignment_interval_ms` the broker's, which may change while it runs."""
        self._settings = settings
        self._configs_of = configs_of
        self._assignment_interval_ms = assignment_interval_ms

    def session_timeout_ms(self, group_id: str) -> int:
        return self._value(group_id, SESSION_TIMEOUT, self._settings.consumer_session_timeout)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._value(group_id, HEARTBEAT_INTERVAL, self._settings.consumer_heartbeat_interval)

    def assignment_interval_ms(self, group_id: str) -> int:
        bounds = self._settings.consumer_assignment_interval
        if self._assignment_interval_ms is not None:
            bounds = replace(bounds, default=bounds.within(self._assignment_interval_ms()))
        return self._value(group_id, ASSIGNMENT_INTERVAL, bounds)

    def _value(self, group_id: str, name: str, bounds: Bounds) -> int:
        own = self._configs_of(group_id).get(name)
        return bounds.default if own is None else bounds.within(int(own))
