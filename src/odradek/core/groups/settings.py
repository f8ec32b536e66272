"""The broker configs of the group coordinator; the defaults are Kafka's."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from odradek.config.group_checks import ASSIGNORS
from odradek.config.node_config import NodeConfig

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for its first rebalance without a heartbeat. Kafka has no config for it either."""
UNBOUNDED: Final = 2**31 - 1


class MigrationPolicy(Enum):
    """Which conversions of a group are allowed when a member with the other protocol joins."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The default and the bounds of a config that a group may override."""

    default: int
    least: int
    most: int

    def within(self, value: int) -> int:
        return min(max(value, self.least), self.most)


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

    consumer_group_max_size: int = UNBOUNDED
    """`group.consumer.max.size`"""
    consumer_session_timeout: Bounds = Bounds(45_000, 45_000, 60_000)
    """`group.consumer.session.timeout.ms`, with its `min` and `max`; the next ones likewise."""
    consumer_heartbeat_interval: Bounds = Bounds(5_000, 5_000, 15_000)
    consumer_assignment_interval: Bounds = Bounds(1_000, 0, 15_000)
    """The minimum time between assignments, so that members that join together share one."""
    consumer_assignors: tuple[str, ...] = ASSIGNORS
    """`group.consumer.assignors`; the first is the default."""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """`group.consumer.migration.policy`"""
    consumer_regex_refresh_interval_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`"""

    @classmethod
    def of(cls, config: NodeConfig) -> Self:
        number = config.effective_number

        assignors = config.effective("group.consumer.assignors")
        assert isinstance(assignors, tuple)
        return cls(
            classic_group_max_size=number("group.max.size"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            consumer_group_max_size=number("group.consumer.max.size"),
            consumer_session_timeout=Bounds(
                number("group.consumer.session.timeout.ms"),
                number("group.consumer.min.session.timeout.ms"),
                number("group.consumer.max.session.timeout.ms"),
            ),
            consumer_heartbeat_interval=Bounds(
                number("group.consumer.heartbeat.interval.ms"),
                number("group.consumer.min.heartbeat.interval.ms"),
                number("group.consumer.max.heartbeat.interval.ms"),
            ),
            consumer_assignment_interval=Bounds(
                number("group.consumer.assignment.interval.ms"),
                number("group.consumer.min.assignment.interval.ms"),
                number("group.consumer.max.assignment.interval.ms"),
            ),
            consumer_assignors=assignors,
            consumer_regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
            consumer_migration_policy=MigrationPolicy(str(config.effective("group.consumer.migration.policy")).lower()),
        )
