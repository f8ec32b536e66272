"""Validates config changes of AlterConfigs and CreateTopics, with Kafka's error codes and messages.

As in Kafka, all configs that a resource would have after the change are checked, not only those that change. A change
of a config that this node does not support is rejected, so that it is not ignored silently.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, NoReturn

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config import supported
from odradek.config.definitions import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDefinition
from odradek.config.dynamic import ONLY_FOR_LISTENERS, is_dynamic, merge, needs_broker_id
from odradek.config.listeners import AddressError
from odradek.config.node_checks import parse_ip_overrides
from odradek.config.node_config import NodeConfig
from odradek.config.synonyms import base_name
from odradek.config.topic_config import Texts, TopicConfig
from odradek.config.values import ConfigType, InvalidValue

_MEBIBYTE = 1 << 20


class Operation(IntEnum):
    """Numbered as IncrementalAlterConfigs puts them on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: Operation
    value: str | None


def alter_topic_configs(stored: Texts, changes: Iterable[Change]) -> dict[str, str]:
    """The configs of a topic after these changes."""

    def error_message(name: str, operation: Operation) -> str:
        return f"Can't {operation.name} to key {name} because its type is not LIST."

    return _alter(TOPIC_CONFIGS, stored, changes, error_message)


def alter_broker_configs(stored: Texts, changes: Iterable[Change]) -> dict[str, str]:
    """The stored configs of a broker, or of the cluster default, after these changes."""

    def error_message(name: str, operation: Operation) -> str:
        if name not in BROKER_CONFIGS:
            return f"Unknown config name: {name}"
        return f"Config value {operation.name.lower()} is not allowed for config key: {name}"

    return _alter(BROKER_CONFIGS, stored, changes, error_message)


def _alter(
    definitions: Mapping[str, ConfigDefinition],
    stored: Texts,
    changes: Iterable[Change],
    error_message: Callable[[str, Operation], str],
) -> dict[str, str]:
    texts = dict(stored)
    for name, operation, value in changes:
        if operation is Operation.DELETE:
            texts.pop(name, None)
        elif operation is Operation.SET:
            texts[name] = value or ""
        else:
            definition = definitions.get(name)
            if definition is None or definition.type is not ConfigType.LIST:
                _reject_config(error_message(name, operation))
            current = texts.get(name, definition.default_text or "")
            texts[name] = _alter_list(operation, current, value or "")
    return texts


def _alter_list(operation: Operation, current: str, value: str) -> str:
    entries, operands = [entry for entry in current.split(",") if entry], value.split(",")
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*entries, *operands]))
    return ",".join(entry for entry in entries if entry not in operands)


def check_topic_configs(configs: Texts, broker_defaults: TopicConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) if these topic configs are invalid."""
    for name in configs:
        if name not in TOPIC_CONFIGS:
            _reject_config(f"Unknown topic config name: {name}")
    for name, definition in TOPIC_CONFIGS.items():
        if name in configs:
            try:
                definition.parse(configs[name])
            except InvalidValue as invalid:
                _reject_config(str(invalid))
    resolved = broker_defaults.with_overrides(configs)
    if resolved.min_compaction_lag_ms > resolved.max_compaction_lag_ms:
        _reject_config(
            f"conflict topic config setting min.compaction.lag.ms ({resolved.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({resolved.max_compaction_lag_ms})"
        )
    if resolved.remote_storage_enable:
        _reject_config(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def check_broker_configs(
    config: NodeConfig, configs: Texts, *, per_broker: bool, changed: Collection[str] | None = None
) -> None:
    """Raises KafkaError if these configs of the broker, or of the cluster default, are invalid.

    Only the configs in `changed` must be supported by this node.
    """
    _check_names(name for name in configs if not is_dynamic(name))
    if misplaced := [name for name in configs if name in ONLY_FOR_LISTENERS]:
        _reject(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            + _format_list(misplaced)
        )
    _check_types(configs)
    if not per_broker and (misplaced := [name for name in configs if needs_broker_id(name)]):
        _reject(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            + _format_list(misplaced)
        )
    levels = (config.dynamic_cluster_default, configs) if per_broker else (configs, config.dynamic_broker)
    effective_values = merge(config.values, *levels)
    _check_limits(effective_values)
    _check_threads(config, effective_values)
    _check_local_retention(effective_values)
    _check_supported(configs if changed is None else [name for name in configs if name in changed])


def _check_names(fixed: Iterable[str]) -> None:
    if names := sorted(fixed):
        _reject(f"Cannot update these configs dynamically: {_format_list(names)}")


def _check_types(configs: Texts) -> None:
    by_base_name = {base_name(name): text for name, text in configs.items()}
    for name, definition in BROKER_CONFIGS.items():
        if name in by_base_name:
            try:
                definition.parse(by_base_name[name])
            except InvalidValue as invalid:
                _reject(str(invalid))


def _check_supported(changed: Iterable[str]) -> None:
    for name in changed:
        base = base_name(name)
        if base not in BROKER_CONFIGS or name in supported.RESERVED:
            continue
        if name in supported.FIXED_AT_START:
            _reject_config(f"{name} cannot be changed at run time: {supported.FIXED_AT_START[name]}")
        if base in ONLY_FOR_LISTENERS:
            continue
        if base in supported.FOR_LISTENERS:
            _reject_reconfiguration(
                f"Configs cannot be updated dynamically for existing listener {_listener_of(name)}, "
                "restart broker or create a new listener for update"
            )
        if base != name:
            _reject_config(f"{name} is not supported yet: configs of single listeners have no effect")
        if name not in supported.BROKER:
            _reject_config(f"{name} has no effect: {supported.WITHOUT_EFFECT.get(name, 'it is not supported yet')}")


def _listener_of(name: str) -> str:
    return f"ListenerName({name.split('.')[2].upper()})"


def _check_limits(effective_values: Texts) -> None:
    """The limits that Kafka does not define as ranges."""
    roll_ms, jitter_ms = _number(effective_values, "log.roll.ms"), _number(effective_values, "log.roll.jitter.ms")
    _require(roll_ms is None or roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(jitter_ms is None or jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        TopicConfig.broker_defaults(static_broker=effective_values).retention_ms != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    threads = _number(effective_values, "log.cleaner.threads") or 0
    _require(threads > 0, "log.cleaner.threads must be at least 1")
    _require(
        (_number(effective_values, "log.cleaner.dedupe.buffer.size") or 0) // threads > _MEBIBYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    try:
        overrides = parse_ip_overrides(effective_values.get("max.connections.per.ip.overrides", ""))
    except AddressError as error:
        _reject(f"Error parsing configuration property 'max.connections.per.ip.overrides': {error}")
    _require(
        _number(effective_values, "max.connections.per.ip") != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )


def _check_threads(config: NodeConfig, effective_values: Texts) -> None:
    """A pool may at most double or halve at a time."""
    for name in ("background.threads", "num.recovery.threads.per.data.dir"):
        new, current = _number(effective_values, name) or 0, _number(config.effective_values, name) or 0
        prefix = f"Dynamic thread count update validation failed for {name}={new}, value should "
        if new < current // 2:
            _reject_reconfiguration(f"{prefix}be at least half the current value {current}")
        if new > current * 2:
            _reject_reconfiguration(f"{prefix}not be greater than double the current value {current}")
    new, current = (_number(texts, "log.cleaner.threads") or 0 for texts in (effective_values, config.effective_values))
    if new < current // 2:
        _reject_reconfiguration(f"Log cleaner threads cannot be reduced to less than half the current value {current}")
    if new > current * 2:
        _reject_reconfiguration(
            f"Log cleaner threads cannot be increased to more than double the current value {current}"
        )


def _check_local_retention(effective_values: Texts) -> None:
    """Local retention must not exceed total retention. -2 means that both are equal."""
    defaults = TopicConfig.broker_defaults(static_broker=effective_values)
    for unit, total, local in (
        ("ms", defaults.retention_ms, defaults.local_retention_ms),
        ("bytes", defaults.retention_bytes, defaults.local_retention_bytes),
    ):
        name, bound = f"log.local.retention.{unit}", f"log.retention.{unit}"
        if total < 0 or local == -2:
            continue
        if local == -1:
            reason = f"Value must not be -1 as {bound} value is set as {total}."
        elif local > total:
            reason = f"Value must not be more than {bound} property value: {total}"
        else:
            continue
        _reject_reconfiguration(str(InvalidValue.because(name, local, reason)))


def _number(texts: Texts, name: str) -> int | None:
    definition = BROKER_CONFIGS[name]
    value = definition.parse(texts[name]) if name in texts else definition.default
    assert value is None or isinstance(value, int)
    return value


def _format_list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _require(satisfied: bool, message: str) -> None:
    if not satisfied:
        _reject(f"requirement failed: {message}")


def _reject(message: str) -> NoReturn:
    """Kafka responds to most invalid broker configs with INVALID_REQUEST."""
    raise KafkaError(ErrorCode.invalid_request, message)


def _reject_config(message: str) -> NoReturn:
    raise KafkaError(ErrorCode.invalid_config, message)


def reconfiguration_error(reason: str) -> KafkaError:
    """Kafka's error for configs that are valid one by one, but cannot be applied now."""
    return KafkaError(
        ErrorCode.invalid_request,
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} "
        "for configuration Invalid dynamic configuration",
    )


def _reject_reconfiguration(reason: str) -> NoReturn:
    raise reconfiguration_error(reason)
