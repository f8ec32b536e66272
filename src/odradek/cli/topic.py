"""`odradek topic`: create, list, describe, alter and delete topics, and elect leaders."""

import sys
from typing import Annotated, Any

import typer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, uuid_to_text
from odradek.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Configs,
    Format,
    Timeout,
    open_cluster,
    parse_assignments,
)
from odradek.client.admin import EARLIEST, LATEST, Admin, ConfigSource, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.explain import explain_error_code
from odradek.client.layout import TopicLayout
from odradek.client.permissions import error_of
from odradek.client.reassignments import Reassignments
from odradek.core.security.resources import Operation
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import is_terminal, say
from odradek.wire.apis import ApiKey

app = typer.Typer(help="Create, list, describe, alter and delete topics; elect leaders.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Topic name.")]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC…", show_default=False, help="Topic names.")]


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="Number of partitions. Default: num.partitions of the cluster."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            help="Number of replicas of each partition. Default: default.replication.factor of the cluster.",
        ),
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the topic already exists.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Create a topic."""
    configs = parse_assignments(config, "--config")
    created = True
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        try:
            Admin(cluster).create_topic(
                name, partitions=partitions or -1, replication_factor=replication_factor or -1, configs=configs
            )
        except KafkaError as error:
            if not (if_not_exists and error.code is ErrorCode.topic_already_exists):
                raise
            created = False
        layout = cluster.retry(f"describing topic {name!r}", lambda: _layout_when_known(cluster, name))
    if format is OutputFormat.JSON:
        print_json({"topic": name, "created": created, **_summary(layout)})
        return
    shape = f"{_format_count(len(layout.partitions), 'partition')} and replication factor {_replication_factor(layout)}"
    say(f"Created topic {name} with {shape}." if created else f"Topic {name} already exists, with {shape}.")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List topics."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        everything = cluster.retry("listing topics", lambda: cluster.layout(None))
    shown = [layout for _, layout in sorted(everything.topics.items()) if internal or not layout.is_internal]
    if format is OutputFormat.JSON:
        print_json([{"topic": layout.name, **_summary(layout)} for layout in shown])
    elif shown:
        columns = ("topic", "partitions", "replication factor", "under-replicated", "no leader")
        print_table(columns, [(layout.name, *_summary_row(layout)) for layout in shown])
    else:
        say("No topics exist yet. Create one with `odradek topic create NAME`.")


@app.command()
def describe(
    names: Names,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show a topic's configs, and the leader, replicas and offsets of each partition."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        layouts = cluster.retry("describing topics", lambda: cluster.topics(names))
        described = [_describe(cluster, layouts[name]) for name in dict.fromkeys(names)]
    if format is OutputFormat.JSON:
        print_json(described)
        return
    for topic in described:
        _print_described(topic)


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="New number of partitions; it can only be increased."),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY", help="Topic config to reset to its default. Repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Change a topic's configs or add partitions."""
    changes = parse_assignments(config, "--config")
    if partitions is None and not changes and not delete_config:
        raise UserError("Nothing to change. Specify --partitions, --config or --delete-config.")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        cluster.topics([name], purpose=Operation.DESCRIBE if partitions is None else Operation.ALTER)
        admin = Admin(cluster)
        if changes or delete_config:
            resource = Resource(ResourceType.TOPIC, name)
            admin.alter_configs(resource, changes=changes, removals=delete_config or ())
        if partitions is not None:
            admin.create_partitions(name, partitions)
            say("Keys may now map to other partitions. The order per key is guaranteed only for new records.")
    say(f"Updated topic {name}.")


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Delete topics and all their records."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        cluster.topics(names, purpose=Operation.DELETE)
        if not yes and is_terminal(sys.stdin):
            typer.confirm(f"Delete {', '.join(names)} and all records?", abort=True, err=True)
        for name in dict.fromkeys(names):
            Admin(cluster).delete_topic(name)
            say(f"Deleted topic {name}.")


@app.command()
def elect(
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic. Repeatable.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Elect the preferred leader, the first replica, of each partition."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        selected = None
        if topic:
            layouts = cluster.retry("looking up topics", lambda: cluster.topics(topic))
            selected = [TopicPartition(name, one.id) for name, layout in layouts.items() for one in layout.partitions]
        elected, failed = Reassignments(cluster).elect_preferred(selected)
    if format is OutputFormat.JSON:
        print_json(
            {
                "elected": [str(partition) for partition in elected],
                "refused": {str(partition): error.code.name.upper() for partition, error in failed.items()},
            }
        )
    else:
        say(
            f"Elected the preferred leader of {_format_count(len(elected), 'partition')}."
            if elected
            else "No election needed: all partitions have their preferred leader."
        )
    if failed:
        partition, error = next(iter(failed.items()))
        count = _format_count(len(failed), "partition")
        raise UserError(f"Election failed for {count}, including {partition}. {explain_error_code(error)}")


def _layout_when_known(cluster: Cluster, name: str) -> TopicLayout:
    """Raise a retriable error until the broker has the new topic in its metadata."""
    layout = cluster.layout([name])
    if name not in layout.topics:
        raise error_of(layout.errors[name], f"topic {name!r}", ApiKey.METADATA, name)
    return layout.topics[name]


def _summary(layout: TopicLayout) -> dict[str, object]:
    return {
        "topic_id": uuid_to_text(layout.id) if layout.id else None,
        "internal": layout.is_internal,
        "partition_count": len(layout.partitions),
        "replication_factor": _replication_factor(layout),
        "under_replicated": _count_under_replicated(layout),
        "without_leader": _count_without_leader(layout),
    }


def _summary_row(layout: TopicLayout) -> tuple[int, ...]:
    return (
        len(layout.partitions),
        _replication_factor(layout),
        _count_under_replicated(layout),
        _count_without_leader(layout),
    )


def _replication_factor(layout: TopicLayout) -> int:
    return len(layout.partitions[0].replicas) if layout.partitions else 0


def _count_under_replicated(layout: TopicLayout) -> int:
    return sum(len(partition.isr) < len(partition.replicas) for partition in layout.partitions)


def _count_without_leader(layout: TopicLayout) -> int:
    return sum(partition.leader < 0 for partition in layout.partitions)


def _describe(cluster: Cluster, layout: TopicLayout) -> dict[str, Any]:
    admin = Admin(cluster)
    configs = admin.configs(Resource(ResourceType.TOPIC, layout.name))
    led = [TopicPartition(layout.name, partition.id) for partition in layout.partitions if partition.leader >= 0]
    earliest = admin.offsets(dict.fromkeys(led, EARLIEST))
    latest = admin.offsets(dict.fromkeys(led, LATEST))
    return {
        "topic": layout.name,
        **_summary(layout),
        "configs": {
            config.name: config.value for config in configs if config.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.name
        },
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader if partition.leader >= 0 else None,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offline": list(partition.offline),
                "earliest_offset": earliest.get(TopicPartition(layout.name, partition.id)),
                "latest_offset": latest.get(TopicPartition(layout.name, partition.id)),
            }
            for partition in layout.partitions
        ],
    }


def _print_described(topic: dict[str, Any]) -> None:
    configs = "  ".join(f"{name}={value}" for name, value in topic["configs"].items())
    print_table(
        ("topic", "id", "partitions", "replication factor", "configs"),
        [
            (
                topic["topic"],
                topic["topic_id"],
                topic["partition_count"],
                topic["replication_factor"],
                configs or "defaults",
            )
        ],
    )
    print_table(
        ("partition", "leader", "replicas", "isr", "offline", "earliest", "latest"),
        [
            (
                partition["partition"],
                "none" if partition["leader"] is None else partition["leader"],
                partition["replicas"],
                partition["isr"],
                partition["offline"],
                partition["earliest_offset"],
                partition["latest_offset"],
            )
            for partition in topic["partitions"]
        ],
    )


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
