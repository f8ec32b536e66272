"""`odradek group`: who reads together, how far they are behind, where they shall go on."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.group_description import describe_as_json, print_described
from odradek.cli.group_lag import show_lag
from odradek.cli.group_reset import Scope, Wishes, plan_resets, plans_as_json, print_plans, say_remarks
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
from odradek.client.explain import explain_refusal
from odradek.client.groups import CLASSIC, CONSUMER, GroupDescription, GroupListing, Groups
from odradek.client.partition_names import name_partitions, partitions_named
from odradek.client.rebalances import last_rebalances
from odradek.text.errors import UserError, nearest
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.progress import progress
from odradek.text.terminal import is_terminal, say

app = typer.Typer(help="List, describe, reset and delete groups; see how far they are behind.", no_args_is_help=True)

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

# What is told over HTTP comes at once, or is done without.
_HTTP_TIMEOUT_S = 2.0

Names = Annotated[list[str] | None, typer.Argument(metavar="GROUP…", show_default=False)]
# As kafka-consumer-groups has it.
NamesByOption = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", hidden=True)]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group that there is.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_groups(
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE[,…]", help="Only groups in one of these: stable,empty …")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE[,…]", help="Only groups of one of these: classic,consumer …")
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
        say("there is no such group" if states or types else "there is no group yet: consumers make them by joining")


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
    """Show a group's state, protocol and coordinator, and its members with what they are assigned.

    If its coordinator has an http.address that is reached from here, also the last rebalances: who caused each, why,
    and how long it took.
    """
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        described = _describe(cluster, _chosen(cluster, names, group, all_groups))
        told = last_rebalances(cluster, (one.coordinator for one in described), timeout_s=min(timeout, _HTTP_TIMEOUT_S))
    rebalances = [None if one.coordinator not in told else told[one.coordinator].get(one.id, []) for one in described]
    if format is OutputFormat.JSON:
        print_json([describe_as_json(one, held) for one, held in zip(described, rebalances, strict=True)])
        return
    for one, held in zip(described, rebalances, strict=True):
        print_described(one, held)


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
            help="Look twice, this far apart, for rates and an estimate; 0: once. Consumers commit every 5 s unless"
            " told otherwise: less than that may show nothing.",
        ),
    ] = 5.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Show how far a group is behind in each partition, how fast that changes, and when it is gone."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        described = _describe(cluster, _chosen(cluster, names, group, all_groups))
        show_lag(cluster, described, interval_s=interval, as_json=format is OutputFormat.JSON)


@app.command()
def reset(
    names: Names = None,
    group: NamesByOption = None,
    all_groups: AllGroups = False,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:0,1,…]", help="This topic or some partitions; may be repeated."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Everything of which the group has committed an offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To what is committed; to the end where nothing is.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="OFFSET", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="By so many records, forward or (-N) back.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="To the first record from then on: 2026-01-31T12:00:00.000, UTC unless it names a zone.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="SPAN", help="To the first record since PT1H30M, P7D … ago.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="To the offsets in a CSV file, as --export has it."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it. Without, the plan is shown and that is all.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only, which is the default.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print the new offsets as CSV.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
    format: Format = OutputFormat.TABLE,
) -> None:
    """Let a group without members go on from elsewhere. Shows what would happen; --execute makes it happen."""
    wish = Wishes(
        earliest=to_earliest,
        latest=to_latest,
        current=to_current,
        offset=to_offset,
        shift=shift_by,
        datetime=to_datetime,
        duration=by_duration,
        file=from_file,
    ).only()
    scope = Scope(topics=topic or (), all_topics=all_topics)
    _check_scope(scope, from_file)
    if execute and dry_run:
        raise UserError("--execute and --dry-run exclude each other")
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        plans = plan_resets(cluster, _chosen(cluster, names, group, all_groups), wish, scope)
        count = sum(len(one.offsets) for one in plans)
        if export:
            sys.stdout.write(offsets_as_csv({one.group: one.offsets for one in plans}))
        elif format is OutputFormat.TABLE:
            print_plans(plans)
        say_remarks(plans)
        if execute and count:
            if not yes and is_terminal(sys.stdin):
                typer.confirm(f"Reset {_counted(count, 'offset')}?", abort=True, err=True)
            with progress("committing", len(plans), unit="groups") as advance:
                for one in plans:
                    Groups(cluster).commit(one.group, one.offsets)
                    advance(1)
    if format is OutputFormat.JSON and not export:
        print_json(plans_as_json(plans, executed=execute))
    if not count:
        say("there is nothing to reset: the group has committed nothing; name topics with --topic")
    elif execute:
        say(f"{_counted(count, 'offset')} reset")
    else:
        say("nothing has happened yet: --execute does it")


@app.command()
def delete(
    names: Names = None,
    group: NamesByOption = None,
    all_groups: AllGroups = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:0,1,…]", help="Only what is committed of this topic; may be repeated."
        ),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = 10.0,
) -> None:
    """Delete groups without members and all that they have committed."""
    with open_cluster(bootstrap, timeout, command_config) as cluster:
        chosen = _chosen(cluster, names, group, all_groups)
        if topic:
            _delete_offsets(cluster, chosen, topic, yes)
            return
        _describe(cluster, chosen)
        if not yes and is_terminal(sys.stdin):
            typer.confirm(f"Delete {', '.join(chosen)} with all committed offsets?", abort=True, err=True)
        refused = Groups(cluster).delete(chosen)
    for name in chosen:
        if name not in refused:
            say(f"{name}: deleted")
    _raise_refusals(refused, len(chosen), "group")


def _delete_offsets(cluster: Cluster, chosen: Sequence[str], topics: Sequence[str], yes: bool) -> None:
    if len(chosen) != 1:
        raise UserError("offsets of single topics are deleted from one group at a time: name one group")
    partitions = partitions_named(cluster, topics, "--topic")
    if not yes and is_terminal(sys.stdin):
        question = f"Delete what {chosen[0]} has committed of {name_partitions(partitions)}?"
        typer.confirm(question, abort=True, err=True)
    try:
        refused = Groups(cluster).delete_offsets(chosen[0], partitions)
    except KafkaError as error:
        if error.code is ErrorCode.group_id_not_found:
            raise _unknown_group(cluster, chosen[0]) from None
        raise
    done = [one for one in partitions if one not in refused]
    if done:
        say(f"{chosen[0]}: offsets of {name_partitions(done)} deleted")
    _raise_refusals({str(one): error for one, error in refused.items()}, len(partitions), "offset")


def _raise_refusals(refused: Mapping[str, KafkaError], count: int, noun: str) -> None:
    if refused:
        name, error = min(refused.items())
        stays = f"{name} stays" if count == 1 else f"{len(refused)} of {_counted(count, noun)} stay; {name}"
        raise UserError(f"{stays}: {explain_refusal(error)}")


def _check_scope(scope: Scope, from_file: Path | None) -> None:
    if from_file is not None:
        if scope.topics:
            raise UserError("the file names the partitions: leave out --topic")
    elif bool(scope.topics) == scope.all_topics:
        raise UserError("which topics are meant? give either --topic or --all-topics")


def _chosen(
    cluster: Cluster, names: Sequence[str] | None, by_option: Sequence[str] | None, all_groups: bool
) -> list[str]:
    chosen = list(dict.fromkeys((*(names or ()), *(by_option or ()))))
    if bool(chosen) == all_groups:
        raise UserError("which group? name one or more, or give --all-groups")
    if not all_groups:
        return chosen
    if not (listed := _listings(cluster, (), (CLASSIC, CONSUMER))):
        raise UserError("there is no group yet: consumers make them by joining")
    return [one.id for one in listed]


def _listings(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> list[GroupListing]:
    with progress("asking brokers for groups", None, unit="brokers") as advance:
        return Groups(cluster).listings(states=states, types=types, on_answer=advance)


def _describe(cluster: Cluster, group_ids: Sequence[str]) -> list[GroupDescription]:
    found = []
    for group_id, answer in Groups(cluster).describe(group_ids).items():
        if isinstance(answer, KafkaError):
            if answer.code is ErrorCode.group_id_not_found:
                raise _unknown_group(cluster, group_id)
            raise answer
        found.append(answer)
    return found


def _unknown_group(cluster: Cluster, group_id: str) -> UserError:
    known = {one.id: one for one in Groups(cluster).listings()}
    if group_id in known:
        kind = known[group_id].type
        return UserError(f"{group_id!r} is a {kind} group: Kafka's kafka-{kind}-groups looks after those")
    meant = nearest(group_id, list(known))
    if meant is not None:
        return UserError(f"there is no group {group_id!r}; did you mean {meant!r}?")
    return UserError(f"there is no group {group_id!r}: `odradek group list` shows all")


def _listing_as_json(one: GroupListing) -> dict[str, Any]:
    return {
        "group": one.id,
        "type": one.type,
        "state": one.state,
        "protocol_type": one.protocol_type,
        "coordinator": one.coordinator_id,
    }


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
