"""`odradek group`: list, describe, reset and delete consumer groups, and show their lag."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.group_description import describe_as_json, print_described
from odradek.cli.group_lag import show_lag
from odradek.cli.group_reset import Scope, TargetOptions, plan_resets, plans_as_json, print_plans, print_remarks
from odradek.cli.offset_file import offsets_as_csv
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
from odradek.client.explain import explain_error_code
from odradek.client.groups import CLASSIC, CONSUMER, GroupDescription, GroupListing, Groups
from odradek.client.partition_names import find_partitions, name_partitions
from odradek.client.rebalances import last_rebalances
from odradek.text.errors import UserError, nearest
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.progress import progress
from odradek.text.terminal import is_terminal, say

app = typer.Typer(help="List, describe, reset and delete consumer groups; show their lag.", no_args_is_help=True)

STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
TYPES = ("classic", "consumer", "share", "streams")

_NO_GROUPS = "No groups exist yet. A group is created when a consumer joins it."

# Rebalance history is optional, so a slow HTTP endpoint must not delay the command.
_HTTP_TIMEOUT_S = 2.0

Names = Annotated[list[str] | None, typer.Argument(metavar="GROUP…", show_default=False, help="Group IDs.")]
# The option of kafka-consumer-groups.
NamesByOption = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", hidden=True)]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Select all groups.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")]


@app.command("list")
def list_groups(
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE[,…]", help="Only groups in these states, such as stable,empty."),
    ] = None,
    type: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE[,…]", help="Only groups of these types, such as classic,consumer."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """List groups."""
    states, types = parse_choices(state, STATES, "--state"), parse_choices(type, TYPES, "--type")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        shown = _listings(cluster, states, types)
    if format is OutputFormat.JSON:
        print_json([_listing_as_json(one) for one in shown])
    elif shown:
        columns = ("group", "type", "state", "protocol", "coordinator")
        rows = [(one.id, one.type, one.state, one.protocol_type or None, one.coordinator_id) for one in shown]
        print_table(columns, rows)
    else:
        say("No matching groups." if states or types else _NO_GROUPS)


@app.command()
def describe(
    names: Names = None,
    group: NamesByOption = None,
    all_groups: AllGroups = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show a group's state, protocol and coordinator, and its members with their assigned partitions.

    If the coordinator's http.address is reachable, also show the last rebalances with cause and duration.
    """
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        described = _describe(cluster, _select_groups(cluster, names, group, all_groups))
        history = last_rebalances(
            cluster, (one.coordinator for one in described), timeout_s=min(timeout, _HTTP_TIMEOUT_S)
        )
    rebalances = [
        None if one.coordinator not in history else history[one.coordinator].get(one.id, []) for one in described
    ]
    if format is OutputFormat.JSON:
        print_json([describe_as_json(one, recent) for one, recent in zip(described, rebalances, strict=True)])
        return
    for one, recent in zip(described, rebalances, strict=True):
        print_described(one, recent)


@app.command()
def lag(
    names: Names = None,
    group: NamesByOption = None,
    all_groups: AllGroups = False,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            min=0.0,
            metavar="SECONDS",
            help="Sampling interval for rates and the catch-up estimate; 0 takes a single sample. Most consumers commit"
            " every 5 s, so a shorter interval may show no progress.",
        ),
    ] = 5.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show a group's lag per partition, how fast it changes, and when the group will have caught up."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        described = _describe(cluster, _select_groups(cluster, names, group, all_groups))
        show_lag(cluster, described, interval_s=interval, as_json=format is OutputFormat.JSON)


@app.command()
def reset(
    names: Names = None,
    group: NamesByOption = None,
    all_groups: AllGroups = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:0,1,…]", help="Topic, or partitions of a topic, to reset. Repeatable."
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Reset all partitions with a committed offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the earliest offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the latest offset.")] = False,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="Reset to the committed offset, or to the latest if there is none."),
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="OFFSET", help="Reset to this offset.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Shift by N offsets, forward (N) or backward (-N).")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="Reset to the first record at or after this time: 2026-01-31T12:00:00.000 (UTC unless a zone is "
            "given).",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="DURATION",
            help="Reset to the first record within this time before now: PT1H30M, P7D.",
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="Reset to the offsets in a CSV file, as --export writes it."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Commit the new offsets. Without it, only the plan is shown.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan (the default).")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the new offsets as CSV.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Reset the committed offsets of an inactive group. Shows the plan; --execute commits the new offsets."""
    target = TargetOptions(
        earliest=to_earliest,
        latest=to_latest,
        current=to_current,
        offset=to_offset,
        shift=shift_by,
        datetime=to_datetime,
        duration=by_duration,
        file=from_file,
    ).parse()
    scope = Scope(topics=topic or (), all_topics=all_topics)
    _check_scope(scope, from_file)
    if execute and dry_run:
        raise UserError("--execute and --dry-run are mutually exclusive. Use one of them.")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        plans = plan_resets(cluster, _select_groups(cluster, names, group, all_groups), target, scope)
        count = sum(len(one.offsets) for one in plans)
        if export:
            sys.stdout.write(offsets_as_csv({one.group: one.offsets for one in plans}))
        elif format is OutputFormat.TABLE:
            print_plans(plans)
        print_remarks(plans)
        if execute and count:
            if not yes and is_terminal(sys.stdin):
                typer.confirm(f"Reset {_format_count(count, 'offset')}?", abort=True, err=True)
            with progress("Committing offsets", len(plans), unit="groups") as advance:
                for one in plans:
                    Groups(cluster).commit(one.group, one.offsets)
                    advance(1)
    if format is OutputFormat.JSON and not export:
        print_json(plans_as_json(plans, executed=execute))
    if not count:
        say("Nothing to reset: the group has no committed offsets. Specify topics with --topic.")
    elif execute:
        say(f"Reset {_format_count(count, 'offset')}.")
    else:
        say("This was a dry run. Use --execute to commit the new offsets.")


@app.command()
def delete(
    names: Names = None,
    group: NamesByOption = None,
    all_groups: AllGroups = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1,…]",
            help="Delete only the committed offsets of this topic. Repeatable.",
        ),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Delete inactive groups with their committed offsets."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        selected = _select_groups(cluster, names, group, all_groups)
        if topic:
            _delete_offsets(cluster, selected, topic, yes)
            return
        _describe(cluster, selected)
        if not yes and is_terminal(sys.stdin):
            typer.confirm(f"Delete {', '.join(selected)} with all committed offsets?", abort=True, err=True)
        failed = Groups(cluster).delete(selected)
    for name in selected:
        if name not in failed:
            say(f"Deleted group {name}.")
    _raise_failures(failed, len(selected), "group")


def _delete_offsets(cluster: Cluster, selected: Sequence[str], topics: Sequence[str], yes: bool) -> None:
    if len(selected) != 1:
        raise UserError("--topic deletes the offsets of one group at a time. Specify one group.")
    (group,) = selected
    partitions = find_partitions(cluster, topics, "--topic")
    if not yes and is_terminal(sys.stdin):
        question = f"Delete the committed offsets of {group} for {name_partitions(partitions)}?"
        typer.confirm(question, abort=True, err=True)
    try:
        failed = Groups(cluster).delete_offsets(group, partitions)
    except KafkaError as error:
        if error.code is ErrorCode.group_id_not_found:
            raise _unknown_group(cluster, group) from None
        raise
    deleted = [one for one in partitions if one not in failed]
    if deleted:
        say(f"Deleted the committed offsets of {group} for {name_partitions(deleted)}.")
    _raise_failures({str(one): error for one, error in failed.items()}, len(partitions), "offset")


def _raise_failures(failed: Mapping[str, KafkaError], count: int, noun: str) -> None:
    if failed:
        name, error = min(failed.items())
        what = f"{noun} {name}" if count == 1 else f"{len(failed)} of {_format_count(count, noun)}, including {name}"
        raise UserError(f"Cannot delete {what}. {explain_error_code(error)}")


def _check_scope(scope: Scope, from_file: Path | None) -> None:
    if from_file is not None:
        if scope.topics:
            raise UserError("--from-file and --topic are mutually exclusive: the file names the partitions.")
    elif bool(scope.topics) == scope.all_topics:
        raise UserError("Specify either --topic or --all-topics.")


def _select_groups(
    cluster: Cluster, names: Sequence[str] | None, by_option: Sequence[str] | None, all_groups: bool
) -> list[str]:
    selected = list(dict.fromkeys((*(names or ()), *(by_option or ()))))
    if bool(selected) == all_groups:
        raise UserError("Specify one or more groups, or --all-groups.")
    if not all_groups:
        return selected
    if not (listed := _listings(cluster, (), (CLASSIC, CONSUMER))):
        raise UserError(_NO_GROUPS)
    return [one.id for one in listed]


def _listings(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> list[GroupListing]:
    with progress("Listing groups", None, unit="brokers") as advance:
        return Groups(cluster).listings(states=states, types=types, on_response=advance)


def _describe(cluster: Cluster, group_ids: Sequence[str]) -> list[GroupDescription]:
    found = []
    for group_id, result in Groups(cluster).describe(group_ids).items():
        if isinstance(result, KafkaError):
            if result.code is ErrorCode.group_id_not_found:
                raise _unknown_group(cluster, group_id)
            raise result
        found.append(result)
    return found


def _unknown_group(cluster: Cluster, group_id: str) -> UserError:
    known = {one.id: one for one in Groups(cluster).listings()}
    if group_id in known:
        kind = known[group_id].type
        return UserError(f"Group {group_id!r} is a {kind} group. Use Kafka's kafka-{kind}-groups tool for it.")
    suggestion = nearest(group_id, list(known))
    if suggestion is not None:
        return UserError(f"Group {group_id!r} does not exist. Did you mean {suggestion!r}?")
    return UserError(f"Group {group_id!r} does not exist. `odradek group list` shows all groups.")


def _listing_as_json(one: GroupListing) -> dict[str, Any]:
    return {
        "group": one.id,
        "type": one.type,
        "state": one.state,
        "protocol_type": one.protocol_type,
        "coordinator": one.coordinator_id,
    }


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
