"""Checks of a manual replica assignment that do not depend on the partition."""

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.image import ClusterImage


def check_manual_assignment(image: ClusterImage, replicas: tuple[int, ...]) -> None:
    """Raises KafkaError."""
    if not replicas:
        raise invalid_assignment("The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise invalid_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise invalid_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id


def invalid_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_replica_assignment, message)
