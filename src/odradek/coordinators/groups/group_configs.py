"""Settings that a group has of its own (`kafka-configs --entity-type groups`), shared by all coordinators of a broker.

The host tells of every change. What lies outside of the broker's bounds, because these were drawn in later, counts as
the nearest bound.
"""

from collections.abc import Mapping
from typing import Final

from .settings import Bounds, GroupSettings

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
_KNOWN: Final = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)


class GroupConfigs:
    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._of_groups: dict[str, Mapping[str, int]] = {}

    def change(self, group_id: str, configs: Mapping[str, str]) -> None:
        """All that are set; none, if they have been taken away. The controller takes none that is no number."""
        known = {name: int(value) for name, value in configs.items() if name in _KNOWN and value.strip().isdecimal()}
        if known:
            self._of_groups[group_id] = known
        else:
            self._of_groups.pop(group_id, None)

    def session_timeout_ms(self, group_id: str) -> int:
        return self._value(group_id, SESSION_TIMEOUT, self._settings.consumer_session_timeout)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._value(group_id, HEARTBEAT_INTERVAL, self._settings.consumer_heartbeat_interval)

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._value(group_id, ASSIGNMENT_INTERVAL, self._settings.consumer_assignment_interval)

    def _value(self, group_id: str, name: str, bounds: Bounds) -> int:
        own = self._of_groups.get(group_id, {}).get(name)
        return bounds.default if own is None else min(max(own, bounds.least), bounds.most)
