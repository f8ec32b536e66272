"""Rows for configs: value, source, default and description."""

from collections.abc import Sequence

from odradek.client.admin import Resource, ResourceType
from odradek.client.config_description import DescribedConfig
from odradek.console.queries.configs import Differences
from odradek.console.readings.table import Cell, Column, Page, Row, Tone, inert, page_of

EDIT = "Edit"

COLUMNS = (
    Column("name", "Config"),
    Column("value", "Value"),
    Column("source", "Source"),
    Column("default", "Default"),
    Column("help", "Description"),
)

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "this broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers",
    "STATIC_BROKER_CONFIG": "server.properties",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_GROUP_CONFIG": "this group",
}


def config_page(configs: Sequence[DescribedConfig], *, search: str, only_changed: bool, page: int) -> Page[Row]:
    wanted = search.strip().lower()
    found = [
        one
        for one in configs
        if (wanted in one.name.lower() or wanted in one.documentation.lower())
        and not (only_changed and one.source == "DEFAULT_CONFIG")
    ]
    part = page_of(found, page)
    return Page(items=[_row(one) for one in part.items], number=part.number, count=part.count, total=part.total)


def title_of(resource: Resource) -> str:
    if resource.type is ResourceType.TOPIC:
        return f"topic {inert(resource.name)}"
    return f"broker {resource.name}" if resource.name else "all brokers"


def source_of(config: DescribedConfig) -> str:
    return _SOURCES.get(config.source, config.source.lower().replace("_", " "))


def shown_value(value: str | None, is_sensitive: bool) -> str:
    if is_sensitive:
        return "hidden"
    return "not set" if value is None else inert(value)


def difference_columns(brokers: Sequence[int]) -> list[Column]:
    return [Column("name", "Config"), *(Column(str(broker), f"Broker {broker}") for broker in brokers)]


def difference_rows(found: Differences, brokers: Sequence[int]) -> list[Row]:
    return [
        Row(
            name,
            {"name": inert(name)}
            | {str(broker): shown_value(values[broker], False) if broker in values else "" for broker in brokers},
        )
        for name, values in found.items()
    ]


def brokers_of(found: Differences) -> list[int]:
    return sorted({broker for values in found.values() for broker in values})


def _row(one: DescribedConfig) -> Row:
    return Row(
        one.name,
        {
            "name": inert(one.name),
            "value": shown_value(one.value, one.is_sensitive),
            "source": Cell(source_of(one), tone=None if one.source == "DEFAULT_CONFIG" else Tone.GOOD),
            "default": "hidden" if one.is_sensitive else shown_value(one.default, False),
            "help": inert(one.documentation) or "no description from this broker",
        },
        () if one.is_read_only else (EDIT,),
    )
