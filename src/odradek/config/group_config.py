"""Group configs, which override those of the brokers: which are supported, and within which bounds."""

from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.definitions import BROKER_CONFIGS
from odradek.config.node_config import NodeConfig
from odradek.config.topic_config import Texts
from odradek.config.values import InvalidValue

# Each has its default from the broker config of the same name with the prefix `group.`.
OF_BROKER: Final = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
    "streams.session.timeout.ms",
)
OWN: Final = ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")

_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
SUPPORTED: Final = (_SESSION_TIMEOUT, _HEARTBEAT_INTERVAL, _ASSIGNMENT_INTERVAL)


def check_group_configs(configs: Texts, config: NodeConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) if these group configs are invalid."""
    for name in configs:
        if name not in OF_BROKER and name not in OWN:
            raise _invalid_config(f"Unknown group config name: {name}")
        if name not in SUPPORTED:
            raise _invalid_config(f"{name} has no effect: it is not supported yet")
    values = {name: _value(name, configs, config) for name in SUPPORTED}
    for name in (_HEARTBEAT_INTERVAL, _SESSION_TIMEOUT, _ASSIGNMENT_INTERVAL):
        if name in configs:
            _check_bounds(name, values[name], config)
    if values[_SESSION_TIMEOUT] <= values[_HEARTBEAT_INTERVAL]:
        raise _invalid_config(f"{_SESSION_TIMEOUT} must be greater than {_HEARTBEAT_INTERVAL}")


def _value(name: str, configs: Texts, config: NodeConfig) -> int:
    if name not in configs:
        return config.effective_number(f"group.{name}")
    try:
        value = BROKER_CONFIGS[f"group.{name}"]._replace(name=name).parse(configs[name])
    except InvalidValue as invalid:
        raise _invalid_config(str(invalid)) from invalid
    assert isinstance(value, int)
    return value


def _check_bounds(name: str, value: int, config: NodeConfig) -> None:
    kind, _, setting = name.partition(".")
    least, most = f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
    if value < config.effective_number(least):
        raise _invalid_config(f"{name} must be greater than or equal to {least}")
    if value > config.effective_number(most):
        raise _invalid_config(f"{name} must be less than or equal to {most}")


def _invalid_config(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, message)
