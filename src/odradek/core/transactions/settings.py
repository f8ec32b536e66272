"""The broker configs of the transaction coordinator; the defaults are Kafka's."""

from dataclasses import dataclass
from typing import Self

from odradek.config.node_config import NodeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    timeout_max_ms: int = 900_000
    """`transaction.max.timeout.ms`"""
    timeouts_check_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`"""
    id_expiration_check_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    two_phase_commit: bool = False
    """`transaction.two.phase.commit.enable`"""

    @classmethod
    def of(cls, config: NodeConfig) -> Self:
        number = config.effective_number
        return cls(
            timeout_max_ms=number("transaction.max.timeout.ms"),
            timeouts_check_interval_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            id_expiration_ms=number("transactional.id.expiration.ms"),
            id_expiration_check_interval_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            two_phase_commit=bool(config.effective("transaction.two.phase.commit.enable")),
        )
