"""`odradek reassign`: plan, apply, monitor and cancel partition reassignments."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Format, Timeout, open_cluster
from odradek.cli.reassignment_file import read_plan, write_plan
from odradek.cli.reassignment_status import NO_REASSIGNMENTS, show_status
from odradek.client.cluster import Cluster
from odradek.client.explain import explain_error_code
from odradek.client.placement import PlacedPartition, Skew, loads_of, skew_of
from odradek.client.reassignment_plan import CannotPlan, PlannedReassignment, Purpose, plan_reassignments
from odradek.client.reassignments import Reassignment, Reassignments
from odradek.client.survey import Survey, survey
from odradek.client.throttles import ReplicationThrottles
from odradek.text.amounts import format_bytes
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.progress import progress
from odradek.text.terminal import is_terminal, say
from odradek.text.times import format_span

app = typer.Typer(help="Plan, apply, monitor and cancel partition reassignments.", no_args_is_help=True)

Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic. Repeatable.")
]
PreserveThrottles = Annotated[bool, typer.Option("--preserve-throttles", help="Do not remove replication throttles.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")]


@app.command()
def plan(
    add_broker: Annotated[
        list[str] | None,
        typer.Option("--add-broker", metavar="ID[,…]", help="Move a fair share of replicas to these brokers."),
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", metavar="ID[,…]", help="Move all replicas off these brokers, online or not."),
    ] = None,
    even: Annotated[
        bool,
        typer.Option("--even", help="Rebalance replicas, bytes and leaders, and spread replicas over racks and hosts."),
    ] = False,
    topic: Topics = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", min=1, metavar="BYTES/S", help="Estimate the duration at this replication rate."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the plan to this file.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Propose a reassignment that copies as little data as possible. `odradek reassign apply` executes it."""
    purpose = Purpose(drain=_parse_ids(drain, "--drain"), fill=_parse_ids(add_broker, "--add-broker"), even=even)
    if purpose == Purpose():
        raise UserError("Specify the goal of the plan: --drain ID, --add-broker ID or --even.")
    if both := purpose.drain & purpose.fill:
        raise UserError(f"Broker {min(both)} is both in --drain and in --add-broker. Remove it from one of them.")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        if topic:
            cluster.retry("looking up topics", lambda: cluster.topics(topic))
        found = _survey(cluster)
        _check_brokers(found, purpose)
        _check_not_ongoing(Reassignments(cluster).list_ongoing(), None)
    placed = found.placed_partitions()
    try:
        with progress("Planning", len(placed), unit="partitions"):
            planned = plan_reassignments(placed, found.places, found.online, purpose, topics=topic or None)
    except CannotPlan as error:
        raise UserError(f"{error}. Add brokers or drain fewer.") from None
    if out is not None and planned:
        write_plan(out, {one.partition: one.after for one in planned})
    before, after = _skews(placed, planned, found.online - purpose.drain)
    if format is OutputFormat.JSON:
        print_json(_plan_as_json(planned, throttle, before, after))
        return
    if not planned:
        say("Nothing to reassign.")
        return
    _print_planned(planned)
    print_table(
        ("skew", "before", "after"),
        [
            ("replicas", before.replicas, after.replicas),
            ("leaders", before.leaders, after.leaders),
            ("bytes", format_bytes(before.size_bytes), format_bytes(after.size_bytes)),
        ],
    )
    say(_cost(planned, throttle))
    say(
        f"Start the reassignment with `odradek reassign apply {out}`."
        if out
        else "Use --out FILE to save the plan for `odradek reassign apply FILE`."
    )


@app.command()
def apply(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", show_default=False, help="Plan from `plan --out` or from kafka-reassign-partitions."
        ),
    ],
    yes: Yes = False,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", min=1, metavar="BYTES/S", help="Limit the replication rate of each broker."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Start the reassignments of a plan. Run it again to change their --throttle."""
    wanted = read_plan(file)
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        planned = _plan_from_file(wanted, _survey(cluster), file)
        ongoing = Reassignments(cluster).list_ongoing()
        targets = {one.partition: one.target for one in ongoing}
        planned = [one for one in planned if targets.get(one.partition) != one.after]
        _check_not_ongoing(ongoing, {one.partition for one in planned})
        if planned and format is OutputFormat.TABLE:
            _print_planned(planned)
            say(_cost(planned, throttle))
        if planned and not yes and is_terminal(sys.stdin):
            typer.confirm(f"Reassign {_format_count(len(planned))}?", abort=True, err=True)
        if throttle is not None:
            started = [_as_planned(one) for one in ongoing if one.partition in wanted]
            ReplicationThrottles(cluster).limit([*planned, *started], throttle)
        with progress("Starting", len(planned), unit="partitions") as advance:
            failed = Reassignments(cluster).start({one.partition: one.after for one in planned}, on_response=advance)
    if format is OutputFormat.JSON:
        print_json({"begun": len(planned) - len(failed), "moves": [_planned_as_json(one) for one in planned]})
    _raise_failures(failed, len(planned))
    if not planned:
        say("Nothing to reassign: all partitions are in place or being reassigned.")
    else:
        say(
            f"Started reassigning {_format_count(len(planned))}. "
            "Use `odradek reassign status --watch` to see the progress."
        )


@app.command()
def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Wait until all reassignments are complete.")] = False,
    preserve_throttles: PreserveThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show ongoing reassignments with the bytes copied and the estimated time left.

    When all reassignments are complete, replication throttles are removed.
    """
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        is_complete = show_status(cluster, watch=watch, as_json=format is OutputFormat.JSON)
        if is_complete and not preserve_throttles:
            _clear_throttles(cluster)


@app.command()
def cancel(
    topic: Topics = None,
    yes: Yes = False,
    preserve_throttles: PreserveThrottles = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 30.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Cancel ongoing reassignments. The partitions return to their previous replicas."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        if topic:
            cluster.retry("looking up topics", lambda: cluster.topics(topic))
        reassignments = Reassignments(cluster)
        selected = [one for one in reassignments.list_ongoing() if not topic or one.partition.topic in topic]
        if selected and not yes and is_terminal(sys.stdin):
            typer.confirm(f"Cancel the reassignment of {_format_count(len(selected))}?", abort=True, err=True)
        with progress("Cancelling", len(selected), unit="partitions") as advance:
            failed = reassignments.cancel([one.partition for one in selected], on_response=advance)
        if selected and not preserve_throttles and not reassignments.list_ongoing():
            _clear_throttles(cluster)
    if format is OutputFormat.JSON:
        print_json({"cancelled": [str(one.partition) for one in selected if one.partition not in failed]})
    _raise_failures(failed, len(selected))
    say(f"Cancelled the reassignment of {_format_count(len(selected))}." if selected else NO_REASSIGNMENTS)


def _clear_throttles(cluster: Cluster) -> None:
    if ReplicationThrottles(cluster).clear():
        say("Removed the replication throttles.")


def _survey(cluster: Cluster) -> Survey:
    with progress("Requesting log dir sizes", None, unit="brokers") as advance:
        return survey(cluster, on_response=advance)


def _parse_ids(texts: Iterable[str] | None, option: str) -> frozenset[int]:
    found = set()
    for text in ",".join(texts or ()).split(","):
        if text.strip():
            if not (text.strip().isascii() and text.strip().isdigit()):
                raise UserError(f"{option} {text.strip()!r} is not a broker ID. Specify a number.")
            found.add(int(text))
    return frozenset(found)


def _check_brokers(found: Survey, purpose: Purpose) -> None:
    holders = {broker for layout in found.partitions.values() for broker in layout.replicas}
    for broker in sorted(purpose.fill - found.online):
        known = ", ".join(map(str, sorted(found.online)))
        raise UserError(f"--add-broker: broker {broker} is not online. Online brokers: {known}.")
    for broker in sorted(purpose.drain - holders - found.members.keys()):
        known = ", ".join(map(str, sorted(found.members)))
        raise UserError(f"--drain: broker {broker} does not exist. Brokers: {known}.")


def _check_not_ongoing(ongoing: Sequence[Reassignment], among: set[TopicPartition] | None) -> None:
    """Raise UserError if a partition, of these or of all, is being reassigned."""
    partitions = [one.partition for one in ongoing if among is None or one.partition in among]
    if partitions:
        raise UserError(
            f"{partitions[0]} is already being reassigned. Wait for it (`odradek reassign status --watch`) or cancel it"
            " (`odradek reassign cancel`)."
        )


def _plan_from_file(
    wanted: Mapping[TopicPartition, tuple[int, ...]], found: Survey, file: Path
) -> list[PlannedReassignment]:
    """Return the part of a plan that is not in place yet."""
    partitions = found.partitions
    planned = []
    for partition, replicas in sorted(wanted.items()):
        layout = partitions.get(partition)
        if layout is None:
            raise UserError(f"{str(file)!r} contains {partition}, which does not exist. Create a new plan.")
        for broker in replicas:
            if broker not in found.members:
                raise UserError(
                    f"{str(file)!r} assigns {partition} to broker {broker}, which does not exist. Create a new plan."
                )
        if layout.replicas != replicas:
            size_bytes = found.size_of(partition, layout)
            planned.append(
                PlannedReassignment(partition=partition, before=layout.replicas, after=replicas, size_bytes=size_bytes)
            )
    return planned


def _as_planned(ongoing: Reassignment) -> PlannedReassignment:
    before = tuple(broker for broker in ongoing.replicas if broker not in ongoing.adding)
    return PlannedReassignment(partition=ongoing.partition, before=before, after=ongoing.target, size_bytes=0)


def _skews(
    placed: Sequence[PlacedPartition], planned: Sequence[PlannedReassignment], brokers: frozenset[int]
) -> tuple[Skew, Skew]:
    after = {one.partition: one.after for one in planned}
    placed_after = [
        PlacedPartition(
            partition=one.partition, replicas=after.get(one.partition, one.replicas), size_bytes=one.size_bytes
        )
        for one in placed
    ]
    skew_before, skew_after = (skew_of(list(loads_of(each, brokers).values())) for each in (placed, placed_after))
    return skew_before, skew_after


def _print_planned(planned: Sequence[PlannedReassignment]) -> None:
    print_table(
        ("partition", "from", "to", "bytes to copy"),
        [(str(one.partition), one.before, one.after, format_bytes(one.bytes_to_copy)) for one in planned],
    )


def _cost(planned: Sequence[PlannedReassignment], throttle: int | None) -> str:
    copied = sum(one.bytes_to_copy for one in planned)
    line = f"{_format_count(len(planned))}, {format_bytes(copied)} to copy"
    if throttle is not None:
        line += f", {format_span(copied * 1000 // throttle)} at {format_bytes(throttle)}/s"
    return line


def _plan_as_json(
    planned: Sequence[PlannedReassignment], throttle: int | None, before: Skew, after: Skew
) -> dict[str, Any]:
    copied = sum(one.bytes_to_copy for one in planned)
    return {
        "moves": [_planned_as_json(one) for one in planned],
        "bytes_to_copy": copied,
        "seconds_at_throttle": None if throttle is None else copied / throttle,
        "skew": {
            name: {"replicas": skew.replicas, "leaders": skew.leaders, "bytes": skew.size_bytes}
            for name, skew in (("now", before), ("then", after))
        },
    }


def _planned_as_json(one: PlannedReassignment) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "from": list(one.before),
        "to": list(one.after),
        "bytes_to_copy": one.bytes_to_copy,
    }


def _raise_failures(failed: Mapping[TopicPartition, KafkaError], count: int) -> None:
    if failed:
        partition, error = min(failed.items())
        raise UserError(
            f"{len(failed)} of {_format_count(count)} failed, including {partition}. {explain_error_code(error)}"
        )


def _format_count(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"
