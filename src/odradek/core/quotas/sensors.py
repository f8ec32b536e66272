"""What clients have used of one kind of quota. Clients that share a limit share a sensor.

The number of sensors is limited, since clients choose their client IDs: sensors that were not used for an hour are
removed, and if there are still too many, those that were used longest ago.
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.precedence import AppliedLimit, LimitTable
from odradek.core.quotas.rates import RateWindows, TokenBucket

EXPIRE_MS: Final = 3_600_000
SENSORS_MAX: Final = 10_000
# When there are too many, this share is removed at once: it takes a sort of all.
_EVICTED_SHARE: Final = 10

M = TypeVar("M", RateWindows, TokenBucket)


class Sensor(Generic[M]):
    __slots__ = ("applied", "limit", "measured")

    def __init__(self, measured: M, applied: AppliedLimit) -> None:
        self.measured: Final[M] = measured
        self.applied: Final = applied
        self.limit = applied.limit


class Sensors(Generic[M]):
    def __init__(self, new_measured: Callable[[int, int, int], M], window_count: int, window_ms: int) -> None:
        self._new_measured: Final[Callable[[int, int, int], M]] = new_measured
        self._window_count: Final = window_count
        self._window_ms: Final = window_ms
        self._limits = LimitTable({})
        self._sensors: Final[dict[tuple[str, str | None], Sensor[M]]] = {}
        self._expire_at = 0
        self.generation = 0
        """Changes whenever a client may have another sensor, or another limit."""

    @property
    def is_enabled(self) -> bool:
        """Whether any client may be limited."""
        return bool(self._limits)

    @property
    def burst_seconds(self) -> float:
        """For how long a client that did nothing before may use its limit at once, without being throttled."""
        return (self._window_count - 1) * self._window_ms / 1000.0

    def change(self, limits: Mapping[QuotaEntityKey, float]) -> None:
        self._limits = LimitTable(limits)
        self.generation += 1
        if not limits:
            self._sensors.clear()

    def find(self, user: str, client_id: str | None, now_ms: int) -> Sensor[M] | None:
        """None: the client is not limited."""
        applied = self._limits.find(user, client_id)
        if applied is None:
            return None
        key = (applied.user, applied.client_id)
        sensor = self._sensors.get(key)
        if sensor is None:
            self._make_room(now_ms)
            measured = self._new_measured(self._window_count, self._window_ms, now_ms)
            sensor = self._sensors[key] = Sensor(measured, applied)
        sensor.limit = applied.limit
        return sensor

    def sensors(self) -> list[Sensor[M]]:
        return list(self._sensors.values())

    def _make_room(self, now_ms: int) -> None:
        sensors = self._sensors
        if len(sensors) < SENSORS_MAX and now_ms < self._expire_at:
            return
        self._expire_at = now_ms + EXPIRE_MS // 60
        removed = [key for key, one in sensors.items() if now_ms - one.measured.last_event_ms >= EXPIRE_MS]
        if len(sensors) - len(removed) >= SENSORS_MAX:
            by_age = sorted(sensors, key=lambda key: sensors[key].measured.last_event_ms)
            removed = by_age[: max(len(removed), SENSORS_MAX // _EVICTED_SHARE)]
        for key in removed:
            del sensors[key]
        if removed:
            self.generation += 1
