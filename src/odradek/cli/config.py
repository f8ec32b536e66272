"""`odradek config`: show and change the configs of topics, brokers, groups and loggers."""

from typing import Annotated

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Timeout,
    open_cluster,
    parse_assignments,
)
from odradek.client.admin import Admin, ConfigValue, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.text.errors import UserError, nearest
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say

app = typer.Typer(help="Show and change configs.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Configs of this topic.")]
Broker = Annotated[int | None, typer.Option("--broker", min=0, metavar="ID", help="Configs of this broker.")]
AllBrokers = Annotated[bool, typer.Option("--all-brokers", help="Cluster-wide default configs of brokers.")]
Loggers = Annotated[
    int | None,
    typer.Option("--loggers", min=0, metavar="ID", help="Log levels of this broker. Changes last until it restarts."),
]
Group = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Configs of this group.")]


@app.command("get")
def get_configs(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY…]", show_default=False, help="Config keys to show.")
    ] = None,
    topic: Topic = None,
    broker: Broker = None,
    all_brokers: AllBrokers = False,
    group: Group = None,
    loggers: Loggers = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include configs with default values.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show configs with the source of each value. Without keys, show those that differ from the default."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        resource = _resource(cluster, topic, broker, all_brokers, group, loggers)
        known = Admin(cluster).configs(resource)
    shown = _choose(known, keys, everything)
    if format is OutputFormat.JSON:
        print_json([_as_json(config) for config in shown])
    elif shown:
        print_table(
            ("key", "value", "source", "dynamic"),
            [(config.name, _value(config), _source(config), not config.is_read_only) for config in shown],
        )
    else:
        say("All configs have their default values. Use --all to show them.")


@app.command("set")
def set_configs(
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE…]", show_default=False, help="Configs to set.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="KEY", help="Reset to the default. Repeatable.")
    ] = None,
    topic: Topic = None,
    broker: Broker = None,
    all_brokers: AllBrokers = False,
    group: Group = None,
    loggers: Loggers = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Set or delete configs. Other configs keep their values."""
    changes = parse_assignments(assignments, "argument")
    if not changes and not delete:
        raise UserError("Nothing to change. Specify KEY=VALUE or --delete KEY.")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        resource = _resource(cluster, topic, broker, all_brokers, group, loggers)
        Admin(cluster).alter_configs(resource, changes=changes, removals=delete or ())
    say(f"Updated the configs of {_title(resource)}.")


def _resource(
    cluster: Cluster, topic: str | None, broker: int | None, all_brokers: bool, group: str | None, loggers: int | None
) -> Resource:
    """Return the one resource that is given.

    It must exist: DescribeConfigs of an unknown topic would look like a topic with default values only.
    """
    if sum((topic is not None, broker is not None, all_brokers, group is not None, loggers is not None)) != 1:
        raise UserError(
            "Specify exactly one of --topic NAME, --broker ID, --all-brokers, --group NAME and --loggers ID."
        )
    if topic is not None:
        cluster.retry("looking up the topic", lambda: cluster.topics([topic]))
        return Resource(ResourceType.TOPIC, topic)
    if group is not None:
        return Resource(ResourceType.GROUP, group)
    broker_id = loggers if broker is None else broker
    if broker_id is None:
        return Resource(ResourceType.BROKER, "")
    brokers = cluster.layout().brokers
    if broker_id not in brokers:
        raise UserError(f"Broker {broker_id} is not online. Online brokers: {', '.join(map(str, sorted(brokers)))}.")
    return Resource(ResourceType.BROKER if loggers is None else ResourceType.BROKER_LOGGER, str(broker_id))


def _choose(known: list[ConfigValue], keys: list[str] | None, everything: bool) -> list[ConfigValue]:
    if not keys:
        return [config for config in known if everything or not config.is_default]
    by_name = {config.name: config for config in known}
    for key in keys:
        if key not in by_name:
            suggestion = nearest(key, tuple(by_name))
            hint = f"Did you mean {suggestion!r}?" if suggestion else "Use --all to list all configs."
            raise UserError(f"Config {key!r} does not exist. {hint}")
    return [by_name[key] for key in keys]


def _as_json(config: ConfigValue) -> dict[str, object]:
    return {
        "key": config.name,
        "value": config.value,
        "source": config.source,
        "sensitive": config.is_sensitive,
        "read_only": config.is_read_only,
    }


def _value(config: ConfigValue) -> str | None:
    return "(hidden)" if config.is_sensitive else config.value


def _source(config: ConfigValue) -> str:
    return config.source.removesuffix("_CONFIG").lower().replace("_", " ")


def _title(resource: Resource) -> str:
    if resource.type is ResourceType.BROKER:
        return f"broker {resource.name}" if resource.name else "all brokers"
    return f"{resource.type.name.lower()} {resource.name}"
