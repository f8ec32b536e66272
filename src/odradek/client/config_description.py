"""Describes configs in full: value, source, default and documentation."""

from collections.abc import Callable
from dataclasses import dataclass

from odradek.client.admin import ConfigSource, Resource, ResourceType, raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.errors import ConnectionFailed, NotYet
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    name: str
    value: str | None
    """None for a sensitive config and for one without a value."""
    source: str
    default: str | None
    """None if the broker does not report it or there is none."""
    documentation: str
    is_sensitive: bool
    is_read_only: bool
    is_own: bool
    """Whether it is set for this resource and can be reset to the default."""


def describe_configs(cluster: Cluster, resource: Resource) -> list[DescribedConfig]:
    """Return all configs of a resource, sorted by name."""
    return cluster.retry("reading configs", lambda: _send(cluster, resource, None, resource.owner))


def wait_until_applied(
    cluster: Cluster, resource: Resource, name: str, is_applied: Callable[[DescribedConfig], bool]
) -> None:
    """Wait until every reachable broker has applied a change. Raises TimedOut."""

    def attempt() -> None:
        has_answered = False
        for broker in sorted(cluster.layout().brokers) if resource.owner is None else (resource.owner,):
            try:
                (found,) = _send(cluster, resource, (name,), broker)
            except ConnectionFailed:
                continue
            has_answered = True
            if not is_applied(found):
                raise NotYet(f"broker {broker} has not applied it yet")
        if not has_answered:
            raise NotYet("no broker responds")

    cluster.retry(f"the change of {name}", attempt)


def _send(
    cluster: Cluster, resource: Resource, names: tuple[str, ...] | None, broker: int | None
) -> list[DescribedConfig]:
    def build(chosen: Schema) -> Message:
        requested = chosen.new(
            "DescribeConfigsResource",
            resource_type=int(resource.type),
            resource_name=resource.name,
            configuration_keys=names,
        )
        return chosen.new(
            "DescribeConfigsRequest", resources=(requested,), include_synonyms=True, include_documentation=True
        )

    if broker is None:
        response = cluster.send_to_any(ApiKey.DESCRIBE_CONFIGS, build)
    else:
        response = cluster.send_to_broker(broker, ApiKey.DESCRIBE_CONFIGS, build)
    raise_for_error(response.results[0])
    return sorted((_config(one, resource) for one in response.results[0].configs), key=lambda one: one.name)


_OWN = {
    (ResourceType.TOPIC, False): ConfigSource.DYNAMIC_TOPIC_CONFIG,
    (ResourceType.BROKER, False): ConfigSource.DYNAMIC_BROKER_CONFIG,
    (ResourceType.BROKER, True): ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    (ResourceType.GROUP, False): ConfigSource.DYNAMIC_GROUP_CONFIG,
}


def _config(config: Message, resource: Resource) -> DescribedConfig:
    source = config.config_source
    is_known = source in ConfigSource._value2member_map_
    synonyms = getattr(config, "synonyms", ())
    defaults = [one.value for one in synonyms if one.source == ConfigSource.DEFAULT_CONFIG]
    if not defaults and source == ConfigSource.DEFAULT_CONFIG:
        defaults = [config.value]
    return DescribedConfig(
        name=config.name,
        value=config.value,
        source=ConfigSource(source).name if is_known else f"SOURCE_{source}",
        default=defaults[-1] if defaults else None,
        documentation=getattr(config, "documentation", None) or "",
        is_sensitive=config.is_sensitive,
        is_read_only=config.read_only,
        is_own=source == _OWN.get((resource.type, not resource.name)),
    )
