"""The typed configuration of one node: `server.properties`, validated, with Kafka's defaults.

`NodeConfig.load` parses a file and reports all errors at once. `dynamic` applies the configs that change at run time.
This module accesses neither network nor disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from odradek.config import node_checks, node_keys
from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.jaas_file import LoginFile, read_login_file
from odradek.config.listeners import Address, Listener, Voter
from odradek.config.problems import ConfigErrors, Problems
from odradek.config.properties import parse_properties
from odradek.config.topic_config import NOTHING, Texts, TopicConfig
from odradek.config.values import ConfigValue

if TYPE_CHECKING:
    from odradek.config.providers import ProviderSources

__all__ = ["ConfigErrors", "NodeConfig"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NodeConfig:
    """Fields are named after their config, with underscores for dots. No repr, since it would contain passwords."""

    node_id: int
    process_roles: frozenset[str]
    broker_rack: str | None

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    """Of the broker only; an empty host means the machine's host name."""
    advertised_controller_listeners: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str
    security_protocols: Mapping[str, str]
    """By listener name, also of listeners of other nodes."""
    controller_quorum_voters: tuple[Voter, ...]
    controller_quorum_bootstrap_servers: tuple[Address, ...]

    authorizer_class_name: str
    """Empty: every client may do everything."""
    super_users: frozenset[str]
    """Principals as TYPE:NAME."""
    allow_everyone_if_no_acl_found: bool

    http_address: Address | None
    """None: no HTTP endpoint. An empty host means every interface."""

    http_security_protocol: str

    log_dirs: tuple[str, ...]
    metadata_log_dir: str

    audit_log_file: str
    """Empty: no audit log."""
    audit_log_format: str
    audit_log_max_bytes: int
    audit_log_max_files: int

    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    background_threads: int
    broker_disconnect_grace_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    connections_max_idle_ms: int
    hot_keys_enable: bool
    controlled_shutdown_enable: bool
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    controller_socket_timeout_ms: int
    default_replication_factor: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delegation_token_secret_key: str | None
    delete_topic_enable: bool
    fetch_max_bytes: int
    follower_replication_throttled_rate: int
    initial_broker_registration_timeout_ms: int
    leader_imbalance_check_interval_seconds: int
    leader_replication_throttled_rate: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_dir_failure_timeout_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    quota_window_num: int
    quota_window_size_seconds: int
    record_validation: str
    replica_alter_log_dirs_io_max_bytes_per_second: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    socket_connection_setup_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    unclean_leader_election_interval_ms: int

    topic_defaults: TopicConfig
    """The configs of a topic without overrides on this node."""

    values: Texts
    """The texts of the file and the overrides, by config name."""
    dynamic_broker: Texts = field(default_factory=dict)
    """Dynamic configs of this broker."""
    dynamic_cluster_default: Texts = field(default_factory=dict)
    """Dynamic configs of all brokers."""
    effective_values: Texts
    """`values`, overridden by the dynamic configs."""
    login_file: LoginFile | None = None
    """The JAAS file that KAFKA_OPTS names."""
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(
        cls,
        text: str,
        source: str,
        overrides: Mapping[str, str] = NOTHING,
        *,
        sources: "ProviderSources | None" = None,
    ) -> Self:
        """Parses a `server.properties`. `overrides` take precedence. Raises ConfigErrors with all errors.

        Without `sources`, variables of config providers cannot be resolved, and KAFKA_OPTS is not read.
        """
        problems = Problems(source)
        properties, malformed = parse_properties(text)
        for line in malformed:
            problems.error_at(line.line, line.reason)
        given = node_keys.collect(properties, overrides, problems)
        node_keys.resolve_variables(given, sources, problems)
        typed = node_keys.parse_all(given, problems)
        login_file = None if sources is None else read_login_file(sources)
        arguments = node_checks.derive(given, typed, problems, login_file)
        problems.raise_if_any()
        for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if name in given:
                given.setdefault(other, given[name])
        settings: dict[str, Any] = {name: typed[name.replace("_", ".")] for name in _SETTINGS if name not in arguments}
        return cls(
            **arguments,
            **settings,
            topic_defaults=TopicConfig.broker_defaults(static_broker=given),
            values=MappingProxyType(given),
            effective_values=MappingProxyType(given),
            login_file=login_file,
            warnings=tuple(problems.warnings),
        )

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and other brokers."""
        return tuple(one for one in self.listeners if one.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        return tuple(one for one in self.listeners if one.name in self.controller_listener_names)

    def effective(self, name: str) -> ConfigValue:
        """The effective value of any broker config, supported or not. Raises KeyError for unknown names."""
        definition = BROKER_CONFIGS[name]
        text = self.effective_values.get(name)
        return definition.default if text is None else definition.parse(text)

    def effective_number(self, name: str) -> int:
        """As `effective`, for an integer config with a default."""
        value = self.effective(name)
        assert isinstance(value, int)
        return value


_OTHER_FIELDS = {
    "topic_defaults",
    "values",
    "dynamic_broker",
    "dynamic_cluster_default",
    "effective_values",
    "login_file",
    "warnings",
}
_SETTINGS = tuple(one.name for one in fields(NodeConfig) if one.name not in _OTHER_FIELDS)
