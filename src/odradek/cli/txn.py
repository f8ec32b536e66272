"""`odradek txn`: list, describe and abort transactions, and find hanging ones."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Timeout,
    open_cluster,
    parse_choices,
)
from odradek.client.cluster import Cluster
from odradek.client.hanging_transactions import OpenTransaction, find_hanging
from odradek.client.partition_names import find_partitions, name_partitions
from odradek.client.transactions import ANY_DURATION, ProducerState, TransactionDescription, Transactions
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.progress import progress
from odradek.text.terminal import is_terminal, say
from odradek.text.times import format_span, format_time

app = typer.Typer(help="List, describe and abort transactions; find hanging ones.", no_args_is_help=True)

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", show_default=False, help="Topic name.")]
Partition = Annotated[
    int | None, typer.Option("--partition", min=0, metavar="NUMBER", show_default=False, help="Partition number.")
]
BrokerId = Annotated[
    int | None, typer.Option("--broker-id", min=0, metavar="ID", help="Query this replica instead of the leader.")
]


@app.command("list")
def list_transactions(
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE[,…]", help="Only transactions in these states, such as Ongoing."),
    ] = None,
    duration_filter: Annotated[
        int, typer.Option("--duration-filter", metavar="MS", help="Only transactions open for longer than this.")
    ] = ANY_DURATION,
    transactional_id_pattern: Annotated[
        str | None,
        typer.Option("--transactional-id-pattern", metavar="REGEX", help="Only transactional IDs that match."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List transactional IDs with the states of their transactions."""
    states = parse_choices(state, STATES, "--state")
    with (
        open_cluster(bootstrap, timeout, command_config) as cluster,
        progress("Listing transactions", None, unit="brokers") as advance,
    ):
        shown = Transactions(cluster).listings(
            states=states, duration_ms_min=duration_filter, pattern=transactional_id_pattern, on_response=advance
        )
    if format is OutputFormat.JSON:
        print_json(
            [
                {
                    "transactional_id": one.transactional_id,
                    "coordinator": one.coordinator_id,
                    "producer_id": one.producer_id,
                    "state": one.state,
                }
                for one in shown
            ]
        )
    elif shown:
        columns = ("transactional id", "coordinator", "producer id", "state")
        print_table(columns, [(one.transactional_id, one.coordinator_id, one.producer_id, one.state) for one in shown])
    else:
        say("No matching transactions.")


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TRANSACTIONAL_ID…", show_default=False, help="Transactional IDs.")
    ] = None,
    transactional_id: Annotated[
        list[str] | None, typer.Option("--transactional-id", metavar="TRANSACTIONAL_ID", hidden=True)
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show the transaction of a transactional ID: state, duration and partitions."""
    selected = (*(names or ()), *(transactional_id or ()))
    if not selected:
        raise UserError("Specify one or more transactional IDs. `odradek txn list` shows them.")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        results = Transactions(cluster).describe(selected)
    described = [_raise_if_unknown(name, result) for name, result in results.items()]
    now_ms = int(time.time() * 1000)
    if format is OutputFormat.JSON:
        print_json([_as_json(one, now_ms) for one in described])
        return
    print_table(
        ("transactional id", "state", "open for", "timeout", "producer id", "epoch", "coordinator", "partitions"),
        [
            (
                one.transactional_id,
                one.state,
                None if (open_for_ms := _open_for_ms(one, now_ms)) is None else format_span(open_for_ms),
                format_span(one.timeout_ms),
                one.producer_id,
                one.producer_epoch,
                str(one.coordinator),
                name_partitions(one.partitions) or None,
            )
            for one in described
        ],
    )


@app.command()
def producers(
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", show_default=False, help="Topic name.")],
    partition: Annotated[
        int, typer.Option("--partition", min=0, metavar="NUMBER", show_default=False, help="Partition number.")
    ],
    broker_id: BrokerId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show the producers of a partition, and the first offset of their open transactions."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        (named,) = find_partitions(cluster, [f"{topic}:{partition}"], "--topic")
        found = Transactions(cluster).producers([named], broker_id=broker_id)[named]
    if format is OutputFormat.JSON:
        print_json([_producer_as_json(one) for one in found])
    elif found:
        columns = ("producer id", "epoch", "coordinator epoch", "last sequence", "last record", "open since offset")
        print_table(
            columns,
            [
                (
                    one.producer_id,
                    one.producer_epoch,
                    one.coordinator_epoch,
                    one.last_sequence,
                    format_time(one.last_timestamp_ms),
                    one.start_offset,
                )
                for one in found
            ],
        )
    else:
        say(f"{named} has no active producers.")


# The name in Kafka's own tool.
app.command("describe-producers", hidden=True)(producers)


@app.command("find-hanging")
def find_hanging_transactions(
    topic: Topic = None,
    partition: Partition = None,
    broker_id: BrokerId = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            min=0,
            metavar="MINUTES",
            help="Maximum transaction timeout of the cluster; younger transactions are ignored.",
        ),
    ] = 15,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Find hanging transactions: no coordinator will end them, and they block read_committed consumers."""
    if partition is not None and topic is None:
        raise UserError("--partition requires --topic.")
    now_ms = int(time.time() * 1000)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        partitions = _partitions_to_search(cluster, topic, partition, broker_id)
        with progress("Describing producers", len(partitions), unit="partitions") as advance:
            found = find_hanging(
                cluster,
                partitions,
                broker_id=broker_id,
                idle_since_ms=now_ms - max_transaction_timeout * 60_000,
                on_response=advance,
            )
    if format is OutputFormat.JSON:
        print_json([{**_partition_as_json(one.partition), **_producer_as_json(one.producer)} for one in found])
    elif found:
        _print_hanging(found, now_ms)
    else:
        say("No hanging transactions.")


@app.command()
def abort(
    topic: Topic = None,
    partition: Partition = None,
    start_offset: Annotated[
        int | None,
        typer.Option(
            "--start-offset",
            min=0,
            metavar="OFFSET",
            help="First offset of the transaction, as `odradek txn find-hanging` shows it.",
        ),
    ] = None,
    producer_id: Annotated[
        int | None,
        typer.Option("--producer-id", min=0, metavar="ID", help="Producer ID, instead of --start-offset."),
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", min=0, metavar="EPOCH", help="With --producer-id: producer epoch.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(
            "--coordinator-epoch",
            metavar="EPOCH",
            help="With --producer-id: coordinator epoch, as `odradek txn producers` shows it.",
        ),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id",
            "--transactionalId",
            metavar="TRANSACTIONAL_ID",
            help="Abort the ongoing transaction of this transactional ID and fence its producer.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Abort a hanging transaction in a partition, or the ongoing transaction of a transactional ID."""
    if transactional_id is not None:
        if topic is not None or partition is not None:
            raise UserError(
                "--transactional-id aborts the transaction in all its partitions. Remove --topic and --partition."
            )
        with open_cluster(bootstrap, timeout, command_config) as cluster:
            _fence(cluster, transactional_id, yes)
        return
    if topic is None or partition is None:
        raise UserError(
            "Specify --topic, --partition and --start-offset, as `odradek txn find-hanging` shows them, or"
            " --transactional-id."
        )
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        (named,) = find_partitions(cluster, [f"{topic}:{partition}"], "--topic")
        if start_offset is not None:
            producer = _open_at(cluster, named, start_offset)
            producer_id, producer_epoch = producer.producer_id, producer.producer_epoch
            coordinator_epoch = producer.coordinator_epoch
        elif producer_id is None or producer_epoch is None or coordinator_epoch is None:
            raise UserError("Specify --start-offset, or --producer-id with --producer-epoch and --coordinator-epoch.")
        if not yes and is_terminal(sys.stdin):
            question = f"Abort the transaction of producer {producer_id} in {named} and discard its records?"
            typer.confirm(question, abort=True, err=True)
        Transactions(cluster).abort(
            named,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            # -1 means that no marker was ever written here; epoch 0 does not fence any later coordinator.
            coordinator_epoch=max(0, coordinator_epoch or 0),
        )
    say(f"Aborted the transaction of producer {producer_id} in {named}.")


# The name in Kafka's own tool.
@app.command("forceTerminateTransaction", hidden=True)
def force_terminate_transaction(
    transactional_id: Annotated[str, typer.Option("--transactionalId", "--transactional-id")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Alias of `odradek txn abort --transactional-id`."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        _fence(cluster, transactional_id, yes)


def _fence(cluster: Cluster, transactional_id: str, yes: bool) -> None:
    (result,) = Transactions(cluster).describe([transactional_id]).values()
    _raise_if_unknown(transactional_id, result)
    if not yes and is_terminal(sys.stdin):
        question = f"Abort the ongoing transaction of {transactional_id} and fence its producer?"
        typer.confirm(question, abort=True, err=True)
    Transactions(cluster).fence(transactional_id)
    say(f"Aborted the transaction of {transactional_id} and fenced its producer.")


def _raise_if_unknown(name: str, result: TransactionDescription | KafkaError) -> TransactionDescription:
    if not isinstance(result, KafkaError):
        return result
    if result.code is ErrorCode.transactional_id_not_found:
        raise UserError(f"Transactional ID {name!r} does not exist. `odradek txn list` shows all transactional IDs.")
    raise result


def _open_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> ProducerState:
    for producer in Transactions(cluster).producers([partition])[partition]:
        if producer.start_offset == start_offset:
            return producer
    raise UserError(
        f"No transaction in {partition} starts at offset {start_offset}."
        f" `odradek txn producers --topic {partition.topic} --partition {partition.partition}` shows the producers."
    )


def _partitions_to_search(
    cluster: Cluster, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return find_partitions(cluster, [f"{topic}:{partition}"], "--topic")
    layouts = (
        cluster.retry("listing topics", lambda: cluster.layout(None)).topics
        if topic is None
        else cluster.retry("looking up topics", lambda: cluster.topics([topic]))
    )
    return [
        TopicPartition(layout.name, one.id)
        for layout in layouts.values()
        for one in layout.partitions
        if (one.leader >= 0 if broker_id is None else broker_id in one.replicas)
    ]


def _print_hanging(found: Sequence[OpenTransaction], now_ms: int) -> None:
    print_table(
        ("topic", "partition", "open since offset", "producer id", "epoch", "coordinator epoch", "idle for"),
        [
            (
                one.partition.topic,
                one.partition.partition,
                one.producer.start_offset,
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.coordinator_epoch,
                format_span(now_ms - one.producer.last_timestamp_ms),
            )
            for one in found
        ],
    )
    say("Abort a transaction with `odradek txn abort --topic … --partition … --start-offset …`.")


def _open_for_ms(one: TransactionDescription, now_ms: int) -> int | None:
    """Return None if the transaction is not open: a complete one keeps its start time at the coordinator."""
    return now_ms - one.started_ms if one.started_ms is not None and one.is_open else None


def _partition_as_json(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _producer_as_json(one: ProducerState) -> dict[str, Any]:
    return {
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp_ms": one.last_timestamp_ms,
        "start_offset": one.start_offset,
    }


def _as_json(one: TransactionDescription, now_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "started_ms": one.started_ms,
        "open_for_ms": _open_for_ms(one, now_ms),
        "coordinator": {"node": one.coordinator.node_id, "address": str(one.coordinator.address)},
        "partitions": [_partition_as_json(partition) for partition in one.partitions],
    }
