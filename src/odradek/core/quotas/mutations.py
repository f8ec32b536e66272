"""How many partitions the requests of a client may create and delete: Kafka's `controller_mutation_rate`."""

from collections.abc import Callable
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.quotas.rates import TokenBucket
from odradek.core.quotas.sensors import Sensor


class MutationQuota:
    """What one request to the controller may change: the number of partitions that it creates or deletes.

    Strict: it is refused while the bucket is overdrawn. Otherwise it is executed, and its client is delayed.
    """

    def __init__(self, sensor: Sensor[TokenBucket] | None, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._sensor: Final = sensor
        self._now_ms: Final = now_ms
        self._is_strict: Final = is_strict
        self._delay_ms = 0
        self._delayed_from_ms = 0

    def withdraw(self, partitions: int) -> None:
        """Raises KafkaError if the request is refused."""
        sensor = self._sensor
        if sensor is None:
            return
        now_ms = self._now_ms()
        bucket, limit = sensor.measured, sensor.limit
        if self._is_strict:
            if bucket.tokens(limit, now_ms) < 0:
                self._set_delay(bucket.delay_ms(limit, now_ms), now_ms)
                raise KafkaError(ErrorCode.throttling_quota_exceeded)
            bucket.withdraw(partitions, limit, now_ms)
        else:
            bucket.withdraw(partitions, limit, now_ms)
            if bucket.tokens(limit, now_ms) < 0:
                self._set_delay(bucket.delay_ms(limit, now_ms), now_ms)

    def remaining_delay_ms(self) -> int:
        """The response may have waited for a commit meanwhile."""
        if not self._delay_ms:
            return 0
        return max(0, self._delay_ms - (self._now_ms() - self._delayed_from_ms))

    def _set_delay(self, delay_ms: int, now_ms: int) -> None:
        if self._sensor is not None and delay_ms:
            self._sensor.note_delay(delay_ms, now_ms)
        self._delay_ms, self._delayed_from_ms = delay_ms, now_ms


NO_MUTATION_QUOTA: Final = MutationQuota(None, lambda: 0, is_strict=False)
