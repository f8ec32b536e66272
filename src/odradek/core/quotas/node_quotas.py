"""The client quotas of one node: what its clients used, and how long each must pause.

The shell measures bytes and times, passes them in, and delays clients. Times are whole milliseconds of a monotonic
clock. A client that exceeds several limits pauses for the longest of its delays.
"""

from collections.abc import Mapping
from typing import Final

from odradek.core.metadata.image import QuotaEntityKey
from odradek.core.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    limits_of,
)
from odradek.core.quotas.rates import RateWindows, TokenBucket
from odradek.core.quotas.sensors import Sensor, Sensors

_UNRESOLVED: Final = -1
# What a client far below its limit may use before it is measured again: measuring every small request would take
# longer than its share of the work.
CREDIT_LIMIT_SECONDS: Final = 0.0005
CREDIT_BYTES_MAX: Final = 65_536
CREDIT_SECONDS_MAX: Final = 0.01
PERCENT_PER_SECOND: Final = 100.0
"""`request_percentage` 100 is all of the time of the event loop."""


class NodeQuotas:
    def __init__(
        self, *, window_count: int, window_ms: int, mutation_window_count: int, mutation_window_ms: int
    ) -> None:
        self.is_enabled = False
        """Whether any client has a limit: nothing is measured without."""
        self.measures_requests = False
        """Whether any client has a limit of `request_percentage`."""
        self.generation = 0
        """Changes with the limits: what connections may use without a measurement ends then."""
        self.produced: Final = Sensors(RateWindows, window_count, window_ms)
        self.fetched: Final = Sensors(RateWindows, window_count, window_ms)
        self.requests: Final = Sensors(RateWindows, window_count, window_ms)
        self.mutations: Final = Sensors(TokenBucket, mutation_window_count, mutation_window_ms)
        self.request_delay_ms_max: Final = window_ms

    def change(self, quotas: Mapping[QuotaEntityKey, Mapping[str, float]]) -> None:
        """Applies the limits of the metadata image. Clients keep what they have used."""
        self.generation += 1
        self.produced.change(limits_of(quotas, PRODUCER_BYTE_RATE))
        self.fetched.change(limits_of(quotas, CONSUMER_BYTE_RATE))
        self.requests.change(limits_of(quotas, REQUEST_PERCENTAGE))
        self.mutations.change(limits_of(quotas, CONTROLLER_MUTATION_RATE))
        kinds = (self.produced, self.fetched, self.requests, self.mutations)
        self.measures_requests = self.requests.is_enabled
        self.is_enabled = any(one.is_enabled for one in kinds)


class ClientUsage:
    """What one client uses. Connections keep it, since finding the sensors takes longer than using them."""

    __slots__ = (
        "_client_id",
        "_fetched",
        "_fetched_generation",
        "_produced",
        "_produced_generation",
        "_quotas",
        "_requests",
        "_requests_generation",
        "_user",
        "byte_credit",
        "credit_generation",
        "time_credit",
    )

    def __init__(self, quotas: NodeQuotas, user: str, client_id: str | None) -> None:
        self._quotas: Final = quotas
        self._user: Final = user
        self._client_id: Final = client_id
        self._produced: Sensor[RateWindows] | None = None
        self._fetched: Sensor[RateWindows] | None = None
        self._requests: Sensor[RateWindows] | None = None
        self._produced_generation = self._fetched_generation = self._requests_generation = _UNRESOLVED
        self.byte_credit: float = 0
        """Bytes that were recorded in advance. The connection takes those of each Produce request from it."""
        self.time_credit = 0.0
        """Likewise, seconds of requests."""
        self.credit_generation = quotas.generation
        """Of the limits for which the credits were granted."""

    def record_produced(self, size: float, now_ms: int) -> int:
        """Returns the delay in milliseconds."""
        sensor = self._produce_sensor(now_ms)
        if sensor is None:
            return 0
        sensor.measured.record(size, now_ms)
        return sensor.measured.delay_ms(sensor.limit, now_ms)

    def forget_credits(self) -> None:
        """The limits have changed. Without a limit, a client has a credit that is large for a small one."""
        self.byte_credit = self.time_credit = 0.0
        self.credit_generation = self._quotas.generation

    def grant_byte_credit(self, now_ms: int) -> None:
        sensor = self._produce_sensor(now_ms)
        self.byte_credit = CREDIT_BYTES_MAX if sensor is None else _grant(sensor, CREDIT_BYTES_MAX, now_ms)

    def grant_time_credit(self, now_ms: int) -> None:
        sensor = self._request_sensor(now_ms)
        if sensor is None:
            self.time_credit = CREDIT_SECONDS_MAX
        else:
            percent_max = CREDIT_SECONDS_MAX * PERCENT_PER_SECOND
            self.time_credit = _grant(sensor, percent_max, now_ms) / PERCENT_PER_SECOND

    def record_fetched(self, size: int, now_ms: int) -> int:
        """Returns the delay in milliseconds. The caller removes the bytes again if it does not send them."""
        sensor = self._fetch_sensor(now_ms)
        if sensor is None:
            return 0
        sensor.measured.record(size, now_ms)
        return sensor.measured.delay_ms(sensor.limit, now_ms)

    def remove_fetched(self, size: int, now_ms: int) -> None:
        sensor = self._fetch_sensor(now_ms)
        if sensor is not None:
            sensor.measured.record(-size, now_ms)

    def limits_fetches(self, now_ms: int) -> bool:
        return self._fetch_sensor(now_ms) is not None or self._request_sensor(now_ms) is not None

    def fetch_bytes_max(self, now_ms: int) -> float:
        """More could never be sent without a delay."""
        sensor = self._fetch_sensor(now_ms)
        return float("inf") if sensor is None else sensor.limit * self._quotas.fetched.burst_seconds

    def record_request(self, seconds: float, now_ms: int) -> int:
        """Returns the delay in milliseconds."""
        sensor = self._request_sensor(now_ms)
        if sensor is None:
            return 0
        sensor.measured.record(seconds * PERCENT_PER_SECOND, now_ms)
        return min(sensor.measured.delay_ms(sensor.limit, now_ms), self._quotas.request_delay_ms_max)

    def note_delay(self, now_ms: int, *, produced_ms: int = 0, fetched_ms: int = 0, request_ms: int = 0) -> None:
        """The client pauses for the longest of these delays. As in Kafka, only the quota that caused it counts it."""
        delay_ms = max(produced_ms, fetched_ms, request_ms)
        if delay_ms == request_ms:
            sensor = self._request_sensor(now_ms)
        else:
            sensor = self._produce_sensor(now_ms) if delay_ms == produced_ms else self._fetch_sensor(now_ms)
        if sensor is not None:
            sensor.note_delay(delay_ms, now_ms)

    def add_request_time(self, seconds: float, now_ms: int) -> None:
        """Of work after the response: it delays only later requests."""
        sensor = self._request_sensor(now_ms)
        if sensor is not None:
            sensor.measured.record(seconds * PERCENT_PER_SECOND, now_ms)

    def _produce_sensor(self, now_ms: int) -> Sensor[RateWindows] | None:
        sensors = self._quotas.produced
        if self._produced_generation != sensors.generation:
            self._produced = sensors.find(self._user, self._client_id, now_ms)
            self._produced_generation = sensors.generation
        return self._produced

    def _fetch_sensor(self, now_ms: int) -> Sensor[RateWindows] | None:
        sensors = self._quotas.fetched
        if self._fetched_generation != sensors.generation:
            self._fetched = sensors.find(self._user, self._client_id, now_ms)
            self._fetched_generation = sensors.generation
        return self._fetched

    def _request_sensor(self, now_ms: int) -> Sensor[RateWindows] | None:
        sensors = self._quotas.requests
        if self._requests_generation != sensors.generation:
            self._requests = sensors.find(self._user, self._client_id, now_ms)
            self._requests_generation = sensors.generation
        return self._requests


def _grant(sensor: Sensor[RateWindows], credit_max: float, now_ms: int) -> float:
    """Nothing in the upper half of the limit, where a delay may come soon."""
    windows, limit = sensor.measured, sensor.limit
    if not 2 * windows.rate(now_ms) < limit:
        return 0.0
    credit = min(credit_max, limit * CREDIT_LIMIT_SECONDS)
    windows.record(credit, now_ms)
    return credit


def unlimited_quotas() -> NodeQuotas:
    """Of a node without limits."""
    return NodeQuotas(window_count=11, window_ms=1000, mutation_window_count=11, mutation_window_ms=1000)


UNLIMITED: Final = ClientUsage(unlimited_quotas(), "", "")
