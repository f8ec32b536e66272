"""Configs with all that a broker knows of them: value, where it comes from, what it would be otherwise, and help."""

from dataclasses import dataclass

from odradek.client.admin import DESCRIBE_CONFIGS, ConfigSource, Resource, ResourceType, raise_refusal
from odradek.client.cluster import Cluster
from odradek.protocol.schemas import Message, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    name: str
    value: str | None
    """None for what is sensitive, and for what has no value."""
    source: str
    default: str | None
    """None: not told, or there is none."""
    documentation: str
    is_sensitive: bool
    is_read_only: bool
    is_own: bool
    """Set for just this resource, so that it can be taken back."""


def describe_configs(cluster: Cluster, resource: Resource) -> list[DescribedConfig]:
    """All of a resource, in the order of their names."""

    def build(chosen: Schema) -> Message:
        asked = chosen.new(
            "DescribeConfigsResource",
            resource_type=int(resource.type),
            resource_name=resource.name,
            configuration_keys=None,
        )
        return chosen.new(
            "DescribeConfigsRequest", resources=(asked,), include_synonyms=True, include_documentation=True
        )

    def ask() -> list[DescribedConfig]:
        if resource.type is ResourceType.BROKER and resource.name:
            response = cluster.ask_broker(int(resource.name), DESCRIBE_CONFIGS, build)
        else:
            response = cluster.ask_any(DESCRIBE_CONFIGS, build)
        raise_refusal(response.results[0])
        return sorted((_config(one, resource) for one in response.results[0].configs), key=lambda one: one.name)

    return cluster.retry("reading configs", ask)


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
