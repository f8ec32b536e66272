"""Synonyms: the broker configs that supply the default of a topic config, and equivalent broker configs."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from odradek.config.values import ConfigValue

_MS_PER_MINUTE = 60_000
_MS_PER_HOUR = 3_600_000


def _keep_value(value: ConfigValue) -> ConfigValue:
    return value


def _hours_to_ms(value: ConfigValue) -> ConfigValue:
    assert isinstance(value, int)
    return value * _MS_PER_HOUR


def _retention_in(unit_ms: int) -> Callable[[ConfigValue], ConfigValue]:
    """Any negative retention is unlimited, which topic configs express as -1."""

    def convert(value: ConfigValue) -> ConfigValue:
        assert isinstance(value, int)
        return max(-1, value * unit_ms)

    return convert


class Synonym(NamedTuple):
    """A broker config that supplies the default of a topic config, after conversion to its unit."""

    broker_config: str
    convert: Callable[[ConfigValue], ConfigValue] = _keep_value


def _one(broker_config: str) -> tuple[Synonym, ...]:
    return (Synonym(broker_config),)


TOPIC_SYNONYMS: Mapping[str, tuple[Synonym, ...]] = MappingProxyType(
    {
        "cleanup.policy": _one("log.cleanup.policy"),
        "compression.gzip.level": _one("compression.gzip.level"),
        "compression.lz4.level": _one("compression.lz4.level"),
        "compression.type": _one("compression.type"),
        "compression.zstd.level": _one("compression.zstd.level"),
        "delete.retention.ms": _one("log.cleaner.delete.retention.ms"),
        "file.delete.delay.ms": _one("log.segment.delete.delay.ms"),
        "flush.messages": _one("log.flush.interval.messages"),
        "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        "index.interval.bytes": _one("log.index.interval.bytes"),
        "local.retention.bytes": _one("log.local.retention.bytes"),
        "local.retention.ms": _one("log.local.retention.ms"),
        "max.compaction.lag.ms": _one("log.cleaner.max.compaction.lag.ms"),
        "max.message.bytes": _one("message.max.bytes"),
        "message.timestamp.after.max.ms": _one("log.message.timestamp.after.max.ms"),
        "message.timestamp.before.max.ms": _one("log.message.timestamp.before.max.ms"),
        "message.timestamp.type": _one("log.message.timestamp.type"),
        "min.cleanable.dirty.ratio": _one("log.cleaner.min.cleanable.ratio"),
        "min.compaction.lag.ms": _one("log.cleaner.min.compaction.lag.ms"),
        "min.insync.replicas": _one("min.insync.replicas"),
        "preallocate": _one("log.preallocate"),
        "retention.bytes": _one("log.retention.bytes"),
        "retention.ms": (
            Synonym("log.retention.ms", _retention_in(1)),
            Synonym("log.retention.minutes", _retention_in(_MS_PER_MINUTE)),
            Synonym("log.retention.hours", _retention_in(_MS_PER_HOUR)),
        ),
        "segment.bytes": _one("log.segment.bytes"),
        "segment.index.bytes": _one("log.index.size.max.bytes"),
        "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _hours_to_ms)),
        "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _hours_to_ms)),
        "unclean.leader.election.enable": _one("unclean.leader.election.enable"),
    }
)
"""By topic config, in order of precedence."""

_ALTERNATIVES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_BROKER_SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: group for group in _ALTERNATIVES for name in group}
    | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}
)

LISTENER_CONFIG = re.compile(r"listener\.name\.[^.]*\.(.*)")
"""A config of one listener: `listener.name.internal.max.connections`."""

_OF_SASL_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.unsecured.tokens.enable",
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The equivalent broker configs in order of precedence, itself included."""
    return _BROKER_SYNONYMS.get(name, (name,))


def base_name(name: str) -> str:
    """The name without the prefixes of a listener and a SASL mechanism."""
    match = LISTENER_CONFIG.fullmatch(name)
    if not match:
        return name
    return next((config for config in _OF_SASL_MECHANISM if match[1].endswith(config)), match[1])
