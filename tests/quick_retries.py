"""confluent-kafka settings that find a new leader quickly."""

from typing import Final

QUICK_RETRIES: Final = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
