"""What a user of confluent-kafka sets who wants to hear of a new leader soon."""

from typing import Final

QUICK_RETRIES: Final = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
