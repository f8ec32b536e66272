"""What of a broker's configuration the group coordinator goes by; the defaults are Kafka's."""

from dataclasses import dataclass
from typing import Final, Self

from odradek.config.node_config import NodeConfig

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long who is new may wait for its first rebalance without a heartbeat. Kafka has no setting for it either."""
UNBOUNDED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    classic_group_max_size: int = UNBOUNDED
    """`group.max.size`"""
    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`"""
    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`"""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`"""
    offset_metadata_max_bytes: int = 4_096
    """`offset.metadata.max.bytes`; Kafka counts UTF-16 units."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """`offsets.retention.minutes`"""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""

    @classmethod
    def of(cls, config: NodeConfig) -> Self:
        number = config.effective_number
        return cls(
            classic_group_max_size=number("group.max.size"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
        )
