"""What clients have used of one kind of quota. Clients that share a limit share a sensor.

The number of sensors is limited, since clients choose their client IDs: sensors that were not used for an hour are
removed, and if there are still too many, those that were used longest ago.
"""

from collections.abc import Callable, Mapping
from heapq import nlargest
from math import nan
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
    __slots__ = ("_delays", "_window_count", "_window_ms", "applied", "limit", "measured")

    def __init__(self, measured: M, applied: AppliedLimit, window_count: int, window_ms: int) -> None:
        self.measured: Final[M] = measured
        self.applied: Final = applied
        self.limit = applied.limit
        self._window_count: Final = window_count
        self._window_ms: Final = window_ms
        self._delays: tuple[RateWindows, RateWindows] | None = None
        """Sum and number of the recent delays. None: there was none."""

    def note_delay(self, delay_ms: int, now_ms: int) -> None:
        """For the metric `throttle-time`."""
        if self._delays is None:
            count, length = self._window_count, self._window_ms
            self._delays = RateWindows(count, length, now_ms), RateWindows(count, length, now_ms)
        total, number = self._delays
        total.record(delay_ms, now_ms)
        number.record(1, now_ms)

    def mean_delay_ms(self, now_ms: int) -> float:
        """Of the delays in the windows; NaN if there is none, as in Kafka."""
        if self._delays is None:
            return nan
        total, number = self._delays
        mean_rate, number_rate = total.rate(now_ms), number.rate(now_ms)
        return mean_rate / number_rate if number_rate > 0 else nan


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
            sensor = self._sensors[key] = Sensor(measured, applied, self._window_count, self._window_ms)
        sensor.limit = applied.limit
        return sensor

    def __len__(self) -> int:
        return len(self._sensors)

    def latest(self, count_max: int) -> list[Sensor[M]]:
        """Those that were used last."""
        if len(self._sensors) <= count_max:
            return list(self._sensors.values())
        return nlargest(count_max, self._sensors.values(), key=lambda one: one.measured.last_event_ms)

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
